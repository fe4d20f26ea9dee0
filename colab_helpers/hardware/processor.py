"""This machine's processor, and the number formats that it computes in."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

from colab_helpers import runtime
from colab_helpers.hardware.device import Device

#: CPU feature -> what it means for number formats. Names as /proc/cpuinfo writes them.
CPU_FEATURES = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16"),
    *("sve", "bf16", "asimdhp"),  # ARM
)


def cpu(seen: runtime.SystemInfo, info_file: Path = Path("/proc/cpuinfo")) -> Device:
    """Return the processor, as the system describes it.

    `seen` has cores and memory; `info_file` is where Linux describes the processor.
    """
    try:
        info = info_file.read_text()
    except OSError:
        info = ""
    name = re.search(r"^model name\s*:\s*(.+)$", info, re.M)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", info, re.M)
    present = set(flags.group(1).split()) if flags else set()
    return Device(
        kind="CPU",
        name=name.group(1) if name else _name_without_proc(seen),
        source="/proc/cpuinfo" if name else "platform",
        memory_total=seen.ram_total or None,
        memory_used=(seen.ram_total - seen.ram_available) or None,
        cores=seen.cores or os.cpu_count(),
        features=tuple(feature for feature in CPU_FEATURES if feature in present),
    )


def _name_without_proc(seen: runtime.SystemInfo) -> str:
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() or "Apple"
    return platform.processor() or seen.machine
