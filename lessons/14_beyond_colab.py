# %%
# @title Imports { display-mode: "form" }
import fcntl
import hashlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import termios
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import nbformat

from colab_helpers import platform_facts, hardware, published_results

from colab_lessons import exercises, figures, measurements

# %% tags=["parameters"]
# @title Sizes that you may set: None stands for the lesson's own { display-mode: "form" }
FAST = os.environ.get("FAST", "").lower() in ("1", "true", "yes")  # True: small sizes, for checks
STEPS = None
LIMIT = None
AFTER = None
MEGABYTES = None

# %% tags=["sizes"]
# @title The lesson's own sizes, small ones with FAST { display-mode: "form" }
STEPS = STEPS or (15 if FAST else 20)  # of the notebook that runs headless
LIMIT = LIMIT or 1.0  # seconds after which a job must end
AFTER = AFTER or 2.0  # seconds that we watch jobs after a hang-up
MEGABYTES = MEGABYTES or (2 if FAST else 50)  # of data that is moved

# %%
folder = Path(tempfile.mkdtemp(prefix="lesson14-"))  # a small machine of its own
os.chdir(folder)

# %% [markdown] tags=["minutes-7"]
# ## You close the laptop
#
# You've rented a machine, logged in with `ssh`, and started a job in its terminal. Here's one: it prints a line twenty times a second, as training does, and notes the time in a file.

# %%
written = Path("train.py").write_text("""
import os, sys, time

for _ in range(int(sys.argv[2])):
    print(time.perf_counter(), file=open(sys.argv[1], "a"))
    try:
        print("still training", flush=True)
    except OSError as error:
        open(sys.argv[1] + " error", "w").write(str(error))
        raise
    if os.path.exists("stop"):
        break
    time.sleep(0.05)
""")

# %% [markdown]
# And here's a real terminal: a shell at one end of a wire, and we hold the other end. We type the command six times, each time in another way. Then we let go of the wire. For the machine, that's a connection that ends.

# %%
python = sys.executable
WAYS = {
    "&": f"{python} train.py '&' 200 &",
    "& > log": f"{python} train.py '& > log' 200 > log1.txt 2>&1 &",
    "nohup": f"nohup {python} train.py nohup 200 &",
    "setsid": f"setsid {python} train.py setsid 200 &",
    "setsid > log": f"setsid {python} train.py 'setsid > log' 200 > log2.txt 2>&1 &",
    "tmux": f"tmux -L lesson new -d {python} train.py tmux 200",
}
WAYS = {way: command for way, command in WAYS.items() if way[0] == "&" or shutil.which(way.split()[0])}  # what this machine has


# %%
def beats(name):  # the times that a job has noted
    return [float(time) for time in Path(name).read_text().split()] if Path(name).exists() else []


# %% [markdown]
# **Predict.** Which of the six go on?

# %%
goes_on = None  # @param ["tmux", "nohup, tmux", "nohup, setsid > log, tmux", "nohup, setsid, setsid > log, tmux", "all with a log, nohup, tmux"]

# %%
# @title Open a terminal, type, and hang up { display-mode: "form" }
for name in ("stop", "setsid error", *WAYS):
    Path(name).unlink(missing_ok=True)
wire, end = os.openpty()
def own_terminal():  # in the shell's process
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # where this notebook ignores it, all that it starts would, too
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


shell = subprocess.Popen(["bash", "--norc", "-i"], stdin=end, stdout=end, stderr=end, start_new_session=True, preexec_fn=own_terminal)
os.close(end)
for command in WAYS.values():
    os.write(wire, f"{command}\n".encode())
for _ in range(1500):  # or go on with those that have begun
    if all(len(beats(way)) > 5 for way in WAYS):
        break
    if select.select([wire], [], [], 0.02)[0]:
        os.read(wire, 65_536)  # somebody has to read what's printed
os.close(wire)  # the connection ends
WAYS = {way: command for way, command in WAYS.items() if beats(way)}  # those that began
hung_up = time.perf_counter()
time.sleep(AFTER)
Path("stop").touch()

# %%
# @title Draw how long they lived { display-mode: "form" }
left = {way: beats(way)[-1] - hung_up for way in WAYS}
answer = ", ".join(way for way in WAYS if left[way] > AFTER / 2)
begun = min(beats(way)[0] for way in WAYS)
lanes = {}
for way in WAYS:
    first, last = beats(way)[0], beats(way)[-1]
    parts = [(first, min(last, hung_up), "connected"), (hung_up, last, "after the connection ended")]
    lanes[way] = {"": [(start - begun, end - begun, what) for start, end, what in parts if end > start]}
figures.activity_timeline(lanes, title=f"Survivors: {answer}{f' (you said {goes_on})' if goes_on else ''}")

# %%
print("the job with setsid:", Path("setsid error").read_text() if Path("setsid error").exists() else "no error")

# %% [markdown]
# When the connection ends, the system sends a *hang-up* signal to the shell, and the shell hands it to what it has started. That ends the first two jobs. `nohup` ignores the signal, and writes what's printed into nohup.out. Typing `exit` is different: an interactive bash then sends no signal to background jobs, unless `huponexit` is set. And `disown` takes a job off the list of those that get one.
#
# `setsid` gives the job a *session* of its own, so the signal doesn't reach it. It still dies, at its next `print`: the terminal is gone. Give it a file to print to, and it survives. `tmux` is a terminal that stays on the machine, and `tmux attach` takes you back to it. Some labs end everything when you log out, whatever you do. There, use their queue.
#
# What you start from a Jupyter notebook has no terminal, and survives the connection. It ends when you restart the kernel, unless it has a session of its own.

# %% [markdown] tags=["minutes-7"]
# ## Without you, and after a kill
#
# So how does your *notebook* run without you? Jupyter can execute it from the command line, and writes the outputs into the file once the run has finished. Here's a small one. It counts instead of training, and saves after every five steps. That's lesson 09 in two lines: write a new file, then replace the old one.

# %%
TRAINING = f"""
import json, os, time

open("pid", "w").write(str(os.getpid()))
start = json.load(open("last.json")) if os.path.exists("last.json") else 0
for step in range(start, {STEPS}):
    time.sleep(0.1)  # a step of training
    print(step, file=open("steps.txt", "a"))
    if (step + 1) % 5 == 0:
        json.dump(step + 1, open("new.json", "w"))
        os.replace("new.json", "last.json")
"""
nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(TRAINING)]), "mine.ipynb")


# %%
def steps_done():
    return len(Path("steps.txt").read_text().splitlines()) if Path("steps.txt").exists() else 0


def execute(kill_at=None):  # once; with kill_at, its kernel is killed after so many steps
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", "mine.ipynb"]
    job = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while kill_at and steps_done() < kill_at and job.poll() is None:
        time.sleep(0.01)
    if kill_at and job.poll() is None:
        os.kill(int(Path("pid").read_text()), signal.SIGKILL)  # no time to save
    return job.wait()  # 0 if all went well


# %% [markdown]
# We kill its kernel after 7 steps, start it again, and kill it once more when 14 lines are written. The third life comes to the end.
#
# **Predict.** How many steps are done twice?

# %%
twice = None  # @param {type:"integer"}

# %%
codes = [execute(kill_at=7), execute(kill_at=14), execute()]
repeated = steps_done() - STEPS
print(f"exit codes {codes}: {len(codes)} lives for {STEPS} steps, and {repeated} were done twice{f' (you said {twice})' if twice is not None else ''}")

# %% [markdown]
# A killed kernel makes nbconvert exit with an error, so a shell knows that it has to try again: `for life in 1 2 3 4 5; do jupyter nbconvert … && break; done`. Cap the retries, or a plain bug is retried forever. What was done since the last save is done again. `papermill mine.ipynb done.ipynb -p learning_rate 0.01` executes notebooks, too, and sets variables from outside.
#
# Now your job is hard to stop. That's a problem, too.

# %% [markdown] tags=["minutes-8"]
# ## Who stops it?
#
# **Predict.** You start a job on Friday at six in the evening on a machine with eight H100s, as the large clouds rent them. It hangs after an hour, and you're back on Monday at nine. What does the bill say, in dollars?

# %%
bill = None  # @param {type:"number"}

# %%
PRICES = {"8 × H100, AWS": "price-8-h100-aws", "H100, RunPod": "price-h100-runpod", "A100 80 GB, Azure": "price-a100-azure", "A100 80 GB, RunPod": "price-a100-runpod"}
HOURS = 63  # from Friday at 18:00 to Monday at 9:00
rows = {name: published_results.get(key) for name, key in PRICES.items()}
weekend = {name: HOURS * row.value for name, row in rows.items()}
for name, row in rows.items():
    print(f"{name:>18}: {row.value:5.2f} $/h on {row.when}, {row.source}: ${weekend[name]:,.0f}")
print(f"eight H100s at AWS, forgotten for a weekend: ${weekend['8 × H100, AWS']:,.0f}{f' (you said ${bill:,.0f})' if bill else ''}")

# %% [markdown]
# These are list prices on demand. A machine costs the same whether it computes or hangs. Colab takes an idle machine away from you. A cloud doesn't, and a budget alert may arrive a day late. So set a timer before the job starts. But where does the timer run?
#
# Let's try two. One is a thread in the launcher, the program that starts the job. The other is a process of its own, which starts the job and kills it when time is up. Then the launcher is killed.

# %%
written = Path("limit.py").write_text("""
import os, signal, subprocess, sys

job = subprocess.Popen(sys.argv[2:], start_new_session=True)
try:
    sys.exit(job.wait(float(sys.argv[1])))
except subprocess.TimeoutExpired:
    os.killpg(job.pid, signal.SIGKILL)  # and what it has started
    sys.exit(124)
""")

# %%
TIMED = f"""
import subprocess, sys, threading, time

job = subprocess.Popen([sys.executable, "train.py", "a timer in the launcher", "80"], start_new_session=True)
threading.Timer({LIMIT}, job.kill).start()
subprocess.Popen([sys.executable, "limit.py", "{LIMIT}", sys.executable, "train.py", "a timer of its own", "80"], start_new_session=True)
time.sleep(60)
"""

# %%
TIMERS = ("a timer in the launcher", "a timer of its own")
Path("stop").unlink(missing_ok=True)
program = subprocess.Popen([sys.executable, "-c", TIMED], stdout=subprocess.DEVNULL)
while not all(beats(name) for name in TIMERS):
    time.sleep(0.02)
time.sleep(LIMIT / 4)
program.kill()
program.wait()
time.sleep(4.5)  # a job that nobody stops takes four seconds

# %%
ran = {name: beats(name)[-1] - beats(name)[0] for name in TIMERS}
print(*(f"{name}: limit {LIMIT:.0f} s, the job ran for {seconds:.1f} s" for name, seconds in ran.items()), sep="\n")

# %% [markdown]
# The timer in the launcher died with it, and the job ran to its own end. On Linux, `timeout -k 30 9h python train.py` is the timer of its own. But it stops the job, and you pay for the *machine*. Give that one a longer limit, from outside, when you create it. `sudo shutdown` on the machine isn't enough everywhere: on some clouds a machine that has shut itself down still costs, until it's deleted.

# %%
print(platform_facts.quote("vm-time-limit"))
print(platform_facts.quote("cloud-budgets"))

# %% [markdown] tags=["minutes-6"]
# ## What can your neighbor read?
#
# Colab's machine is yours alone. On a lab's server or a shared node others log in, too. They don't need your password to read what you left open. Here's a careless job: data in a home folder, an old notebook that once printed a token, the token on the command line and in the environment, and a web server without a password.

# %%
TOKEN = "hf_" + secrets.token_hex(8)
home = folder / "home"
home.mkdir(mode=0o755)
folder.chmod(0o755)  # some systems make home folders like this
(home / "data.csv").write_text("patient,age\n")
(home / "old.ipynb").write_text(json.dumps({"outputs": f"logged in with {TOKEN}"}))
careless = subprocess.Popen([sys.executable, "train.py", "job", "400", f"--token={TOKEN}"], env={**os.environ, "HF_TOKEN": TOKEN}, stdout=subprocess.DEVNULL)


# %% [markdown]
# If you're the administrator here, as on Colab, files are read as another user, `nobody`. Otherwise we look at their permissions, which say the same. The web server has no login, so anyone can connect, and we do it ourselves.

# %%
# @title A web server without a password { display-mode: "form" }
class Server(BaseHTTPRequestHandler):
    wanted = ""  # what has to follow ?token=

    def do_GET(self):
        self.send_response(200 if self.path.endswith(self.wanted) else 403)
        self.end_headers()

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


# %%
# @title What another user can read { display-mode: "form" }
def neighbor_reads(path):
    path = Path(path).resolve()
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        done = subprocess.run(["cat", path], user=65534, group=65534, extra_groups=[], capture_output=True)
        return done.returncode == 0
    return bool(path.stat().st_mode & 0o004) and all(parent.stat().st_mode & 0o001 for parent in path.parents)


def neighbor_gets_in():
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        return direct.open(f"http://127.0.0.1:{server.server_port}/").status == 200
    except urllib.error.HTTPError:
        return False


# %%
# @title What the neighbor finds { display-mode: "form" }
def attempts(job):
    found = {"data.csv": neighbor_reads(home / "data.csv"), "token in old.ipynb": neighbor_reads(home / "old.ipynb") and TOKEN in (home / "old.ipynb").read_text()}
    process = Path(f"/proc/{job.pid}")
    if process.exists():  # on Linux
        found["token on the command line"] = neighbor_reads(process / "cmdline") and TOKEN in (process / "cmdline").read_text()
        found["token in the environment"] = neighbor_reads(process / "environ")
    return found | {"web server on localhost": neighbor_gets_in()}


# %% [markdown]
# **Predict.** Five things are lying around: the data, the token in the notebook, on the command line and in the environment, and the web server. How many does the neighbor get?

# %%
gets = None  # @param {type:"integer"}

# %%
before = attempts(careless)
careless.kill()
careless.wait()

# %%
home.chmod(0o700)  # now close it
(home / "old.ipynb").write_text(json.dumps({"outputs": ""}))
Server.wanted = f"?token={secrets.token_hex(16)}"

# %%
careful = subprocess.Popen([sys.executable, "train.py", "job", "400"], env={**os.environ, "HF_TOKEN": TOKEN}, stdout=subprocess.DEVNULL)
after = attempts(careful)
careful.kill()
careful.wait()
server.shutdown()
for name, seen in before.items():
    print(f"{name:>26}: {'READ' if seen else 'closed':7} then {'READ' if after[name] else 'closed'}")
print(f"{sum(before.values())} of {len(before)}{f' (you said {gets})' if gets is not None else ''}, then {sum(after.values())}")

# %% [markdown]
# Command lines are public on most systems, and `ps` shows them. Other users can't read your environment, but all of your own processes can, and crash reports print it. A token belongs in a file that only you may read (mode 600), or in a secret store. A token that was visible is known, so closing the door doesn't help: revoke it, and make a new one. And localhost isn't private on a shared machine: every user can connect to it. A *tunnel*, `ssh -L 8888:localhost:8888 machine`, keeps Jupyter off the internet. It doesn't replace Jupyter's token.

# %% [markdown] tags=["minutes-3"]
# ## Did all of it arrive?
#
# When the machine is deleted, its disk goes, too. So the results have to leave it. Pack them into one archive, copy it, and compare a checksum at the other end, before you delete anything. What if a single bit changes on the way?

# %%
(folder / "results").mkdir()
(folder / "results" / "weights.bin").write_bytes(os.urandom(MEGABYTES * 10**6))
archive = Path(shutil.make_archive("results", "tar", root_dir="results"))

# %%
arrived = Path(shutil.copy(archive, "arrived.tar"))
content = bytearray(arrived.read_bytes())
content[len(content) // 2] ^= 1  # one bit
arrived.write_bytes(content)

# %%
def checksum(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# %%
same = checksum(archive) == checksum(arrived)
with tarfile.open(arrived) as tar:
    tar.extractall("unpacked", filter="data")
before_and_after = [Path(place, "weights.bin").stat().st_size for place in ("results", "unpacked")]
print(f"unpacked without an error, and the sizes are {before_and_after}")
print(f"the checksums are {'the same' if same else 'different'}")

# %% [markdown]
# The archive opens, and the size is right. A plain `.tar` has no checksum of its files (`.zip` and `.tar.gz` do), so only yours can tell. `scp` and `rsync` protect what's on the wire, and their exit code says whether they came to the end. They can't tell you that the file was damaged on a disk, or that you copied last week's. In a shell, `sha256sum results.tar > results.sha256` before, and `sha256sum -c results.sha256` at the other end.

# %% [markdown] tags=["minutes-1"]
# ## Where to go
#
# All of these need an account, so they don't run here. The commands are from their documentation, seen on 2026-11-25.
#
# ```bash
# # Colab, from a terminal: pip install google-colab-cli
# colab new -s mine --gpu T4
# colab exec -s mine -f mine.ipynb --timeout 32400;  colab stop -s mine
# # Kaggle, free, two T4s; the first line writes kernel-metadata.json, fill it in
# kaggle kernels init -p .
# kaggle kernels push -p . --accelerator NvidiaTeslaT4 --timeout 32400
# # a lab's Slurm, with the script below
# sbatch --gres=gpu:1 --time=9:00:00 --requeue run.sh
# # a machine at Google Cloud; the last line lists what FAMILY can be
# gcloud compute instances create mine --zone us-central1-a --machine-type n1-standard-4 \
#   --accelerator type=nvidia-tesla-t4,count=1 --maintenance-policy TERMINATE \
#   --max-run-duration 10h --instance-termination-action STOP --scopes storage-rw \
#   --image-project deeplearning-platform-release --image-family FAMILY \
#   --metadata install-nvidia-driver=True
# gcloud compute images list --project deeplearning-platform-release
# ```
#
# In a new Google Cloud project your quota of GPUs is often 0, and you ask for one first. It may take days, so don't begin on the evening before. A *spot* machine costs a fraction, and may be taken away with half a minute's notice at Google, and two minutes' at AWS. Your loop ends with it. So copy each checkpoint into a bucket, and let something outside start the next machine. When a node fails, Slurm's `--requeue` does that for you. A machine that's only stopped keeps its disk, and its disk still costs.

# %% [markdown] tags=["minutes-7"]
# ## Exercises
#
# ### 1 · Cheaper by the hour?
#
# Your job takes 20 hours on an H100 for 3.99 dollars an hour, or 48 hours on an A100 for 1.79. What does each cost?

# %% tags=["exercise"]
costs = {"H100": ..., "A100": ...}  # dollars
### BEGIN SOLUTION
costs = {"H100": 20 * 3.99, "A100": 48 * 1.79}
### END SOLUTION
exercises.check("14.costs", costs)

# %% [markdown]
# ### 2 · Start it and leave
#
# Write `start`: it runs a command so that it survives a hang-up, and ends after so many seconds at the latest. It returns the `Popen` at once.

# %% tags=["exercise"]
def start(command, seconds):  # command: a list
    return ...


### BEGIN SOLUTION
def start(command, seconds):
    limited = [sys.executable, str(folder / "limit.py"), str(seconds), *command]
    with (folder / "log.txt").open("a") as log:  # or its next print ends it
        return subprocess.Popen(limited, start_new_session=True, stdout=log, stderr=log)


### END SOLUTION
exercises.check("14.start", start)

# %% [markdown]
# ### 3 · Close the door
#
# Write `close`: afterwards only you can read what's in a folder, now and later.

# %% tags=["exercise"]
def close(folder):  # a Path
    return ...


### BEGIN SOLUTION
def close(folder):
    folder.chmod(0o700)


### END SOLUTION
exercises.check("14.close", close)

# %% [markdown] tags=["minutes-1"]
# ## Three things to take away

# %%
takeaways = {
    "A job needs somewhere to print": f"after a hang-up, what goes on: {answer}. Two kills cost {repeated} steps.",
    "The timer must not be in the launcher": f"with a limit of {LIMIT:.0f} s, one job ran for {ran[TIMERS[1]]:.1f} s and the other for {ran[TIMERS[0]]:.1f}.",
    "Close what others can read": f"a neighbor read {sum(before.values())} of {len(before)} things, and then {sum(after.values())}.",
}
print(*(f"{idea}: {number}" for idea, number in takeaways.items()), sep="\n")

# %%
# @title Keep your numbers as a record { display-mode: "form" }
for path in (archive, arrived, Path("results/weights.bin"), Path("unpacked/weights.bin")):
    path.unlink(missing_ok=True)
value, guess, inventory = measurements.Value, measurements.Prediction, hardware.list_devices()
measurements.record(
    "14_beyond_colab", FAST, device=inventory.cpu,
    predicted={
        "goes_on": guess(goes_on, answer),
        "twice": guess(twice, repeated),
        "bill": guess(bill, weekend["8 × H100, AWS"]),
        "gets": guess(gets, sum(before.values())),
    },
    plain_left=value(left["&"], "s", "last sign of life of a job in the background, after the hang-up"),
    nohup_left=value(left["nohup"], "s", f"… with nohup, of {AFTER:g} s that we watched"),
    **({"setsid_left": value(left["setsid"], "s", "… with setsid, and printing"), "both_left": value(left["setsid > log"], "s", "… with setsid, and a file to print to")} if "setsid" in left else {}),
    repeated=value(repeated, "", "steps done twice, after two kills"),
    timer_inside=value(ran[TIMERS[0]], "s", f"a job with a limit of {LIMIT:g} s, timer in the launcher"),
    timer_own=value(ran[TIMERS[1]], "s", f"a job with a limit of {LIMIT:g} s, timer of its own"),
    read_before=value(sum(before.values()), "", f"things of {len(before)} that a neighbor read"),
    read_after=value(sum(after.values()), "", "… after closing them"),
    noticed=value(not same, "", "whether a checksum noticed one changed bit"),
)

# %% [markdown] tags=["minutes-0"]
# ## Keep this, and what comes next
#
# ```bash
# # run.sh, started with:  setsid bash run.sh > log.txt 2>&1 &     the machine's own limit is longer: 10h, from outside
# # before: (umask 077; cat > ~/.hf_token); export HF_TOKEN_PATH=~/.hf_token   never the token itself
# timeout -k 30 ${LIMIT:-9h} bash -c '
#   for life in 1 2 3 4 5; do
#     python -m nbconvert --to notebook --execute --inplace mine.ipynb && exit 0
#     sleep 5
#   done
#   exit 1'
# echo $? > status                # 0 done, 1 it failed five times, 124 the time was up
# tar cf results.tar status log.txt mine.ipynb last.json; sha256sum results.tar > results.sha256
# for try in 1 2 3; do gcloud storage cp results.tar results.sha256 gs://my-results/ && break; sleep 60; done
# sudo shutdown now               # its disk stays, and costs
# # at home:  gcloud storage cp "gs://my-results/results.*" . && sha256sum -c results.sha256   and only then delete the machine
# ```
#
# A test runs this script with a job that's killed, one that hangs, and an upload that fails once. Your job goes on without you now, stops when it should, and comes home whole.
