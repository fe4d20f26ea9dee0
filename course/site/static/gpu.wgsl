// What gpu.js times. All entry points share four bindings: two matrices in, one out, and a size.
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(0) @binding(3) var<uniform> size: vec4<u32>; // x: numbers, or n; y: rows of a, z: its columns

// The least that a dispatch can do.
@compute @workgroup_size(1)
fn tiny() {
  out[0] += 1.0;
}

// Copies n numbers, 16 per thread; neighboring threads copy neighboring numbers.
@compute @workgroup_size(256)
fn copy(@builtin(global_invocation_id) id: vec3<u32>) {
  let threads = size.x / 16;
  for (var i = id.x; i < size.x; i += threads) {
    out[i] = a[i];
  }
}

// Sums 16 numbers per thread, of all in matrix a; in each read, neighboring threads take neighbors within a
// row ...
@compute @workgroup_size(256)
fn along_rows(@builtin(global_invocation_id) id: vec3<u32>) {
  var total = 0.0;
  for (var k = 0u; k < 16; k++) {
    let i = id.x + k * (size.x / 16);
    total += a[(i / size.z) * size.z + i % size.z];
  }
  out[id.x] = total;
}

// ... or within a column, so that each read touches a row of its own.
@compute @workgroup_size(256)
fn along_columns(@builtin(global_invocation_id) id: vec3<u32>) {
  var total = 0.0;
  for (var k = 0u; k < 16; k++) {
    let i = id.x + k * (size.x / 16);
    total += a[(i % size.y) * size.z + i / size.y];
  }
  out[id.x] = total;
}

// Multiplies two n x n matrices, for every n. A workgroup of 16 x 16 threads computes a tile of 64 x 64, from
// slices of 64 x 16 and 16 x 64 in workgroup memory; each thread keeps 4 x 4 sums in registers.
const DEPTH = 16u;
var<workgroup> slice_a: array<vec4<f32>, 256>; // DEPTH x 16: four rows of a
var<workgroup> slice_b: array<vec4<f32>, 256>; // DEPTH x 16: four columns of b

fn a_at(row: u32, column: u32) -> f32 {
  return select(0.0, a[row * size.x + column], row < size.x && column < size.x);
}

fn b_at(row: u32, column: u32) -> f32 {
  return select(0.0, b[row * size.x + column], row < size.x && column < size.x);
}

fn write(row: u32, column: u32, sums: vec4<f32>) {
  if (row >= size.x) {
    return;
  }
  for (var j = 0u; j < min(4, size.x - min(column, size.x)); j++) {
    out[row * size.x + column + j] = sums[j];
  }
}

@compute @workgroup_size(16, 16)
fn matmul(
  @builtin(workgroup_id) tile: vec3<u32>,
  @builtin(local_invocation_id) local: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row = 64 * tile.y + 4 * local.y;
  let column = 64 * tile.x + 4 * local.x;
  let from_row = 64 * tile.y + 4 * (thread / DEPTH); // what this thread fetches of a, in column k below
  var s0 = vec4(0.0);
  var s1 = vec4(0.0);
  var s2 = vec4(0.0);
  var s3 = vec4(0.0);
  for (var start = 0u; start < size.x; start += DEPTH) {
    let k = start + thread % DEPTH;
    slice_a[16 * (thread % DEPTH) + thread / DEPTH] =
      vec4(a_at(from_row, k), a_at(from_row + 1, k), a_at(from_row + 2, k), a_at(from_row + 3, k));
    let deep = start + local.y;
    slice_b[thread] = vec4(b_at(deep, column), b_at(deep, column + 1), b_at(deep, column + 2), b_at(deep, column + 3));
    workgroupBarrier();
    for (var i = 0u; i < DEPTH; i++) {
      let left = slice_a[16 * i + local.y];
      let right = slice_b[16 * i + local.x];
      s0 += left.x * right;
      s1 += left.y * right;
      s2 += left.z * right;
      s3 += left.w * right;
    }
    workgroupBarrier();
  }
  write(row, column, s0);
  write(row + 1, column, s1);
  write(row + 2, column, s2);
  write(row + 3, column, s3);
}
