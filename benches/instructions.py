#!/usr/bin/env python3
"""What one decision executes and writes, instruction by instruction.

    benches/instructions.py [PATH_TO_THE_EXAMPLE]

Builds the example `paths` (release profile), runs it under valgrind's lackey, which tells every
instruction executed and every address written, for two numbers of decisions, and takes the
difference: the first sight of the client, and everything else that happens once, cancels out.
objdump says what each instruction is, addr2line whose it is (the innermost crate among those it
was inlined into). Needs valgrind, objdump and addr2line.
"""

import collections
import os
import re
import subprocess
import sys

FEW, MANY = 100, 300
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
STACK_SPAN = 1 << 16
CRATES = ("seize", "papaya", "foldhash", "tollgate")


def build():
    command = ["cargo", "build", "--release", "--quiet", "-p", "tollgate-benches", "--example", "paths"]
    subprocess.run(command, cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.path.join(target, "release", "examples", "paths")


def symbol(binary, name):
    """The address in the file of the function whose name contains `name`."""
    listing = subprocess.run(["nm", "-C", binary], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in listing.splitlines() if name in line)


def disassemble(binary):
    """Address -> text of every instruction of the program itself."""
    command = ["objdump", "-d", "--no-show-raw-insn", binary]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.finditer(r"^\s+([0-9a-f]+):\t(.+?)\s*$", listing, re.M)
    return {int(line[1], 16): re.sub(r"\s+", " ", line[2].split("#")[0].strip()) for line in found}


def trace(binary, answer, kind, decisions):
    """How often each instruction ran, and how often it wrote outside the stack, by its address."""
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--basic-counts=no",
               binary, answer, kind, str(decisions)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr[-2000:])
    told = dict(line.split() for line in run.stdout.splitlines())
    base = int(told["code"], 16) - symbol(binary, "decide_typed")
    stack = int(told["stack"], 16)
    executed, loads, stack_stores, stores = (collections.Counter() for _ in range(4))
    written = collections.defaultdict(set)
    at = 0
    for line in run.stderr.splitlines():
        if line[:2] == "I ":
            at = int(line[3:].split(",")[0], 16) - base
            executed[at] += 1
        elif line[:2] in (" L", " S", " M"):
            address = int(line[3:].split(",")[0], 16)
            if line[1] != "S":
                loads[at] += 1
            if line[1] != "L":
                on_stack = abs(address - stack) < STACK_SPAN
                (stack_stores if on_stack else stores)[at] += 1
                if not on_stack:
                    written[at].add(address)
    return executed, loads, stack_stores, stores, written


def owner(binary, address):
    """The crate that the instruction was written in, and where."""
    command = ["addr2line", "-i", "-e", binary, hex(address)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for line in lines:
        place = re.sub(r" \(discriminator \d+\)", "", line)
        for crate in CRATES:
            found = re.search(rf"/{crate}-[\d.]+/(src/.*)", place)
            if found:
                return crate, found[1]
        found = re.search(r"(?:^|/)(src/(?:algorithm/)?\w+\.rs:\d+)$", place)
        if found and "/registry/" not in place and "/rustc/" not in place:
            return "tollgate", found[1]
    return "std", os.path.basename(lines[0]) if lines else "?"


def is_locked(text):
    """`xchg` with memory is locked without saying so."""
    return text.startswith("lock") or (text.startswith("xchg") and "(" in text)


def report(binary, text, answer, kind):
    few = trace(binary, answer, kind, FEW)
    many = trace(binary, answer, kind, MANY)
    executed, loads, stack_stores, stores = (
        {at: (after[at] - before[at]) / (MANY - FEW) for at in after if after[at] != before[at]}
        for before, after in zip(few[:4], many[:4]))
    print(f"\n{answer}, {kind}: per decision {sum(executed.values()):.1f} instructions, "
          f"{sum(loads.values()):.1f} loads, {sum(stack_stores.values()):.1f} stores to the "
          f"thread's own stack, {sum(stores.values()):.1f} stores elsewhere")
    owners = collections.Counter()
    for at, count in executed.items():
        owners[owner(binary, at)[0] if at in text else "libc"] += count
    print("  instructions of " + ", ".join(f"{c} {n:.1f}" for c, n in owners.most_common()))
    for at in sorted(at for at in executed if is_locked(text.get(at, "")) or at in stores):
        crate, place = owner(binary, at)
        lock = "locked" if is_locked(text.get(at, "")) else "store "
        lines = len({address // 64 for address in many[4][at]})
        print(f"  {executed[at]:5.2f} x {lock} {text.get(at, '?'):<36} {crate:<9} {place}"
              f"  ({lines} line{'s' if lines > 1 else ''})")


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else build()
    text = disassemble(binary)
    for kind in ("typed", "any"):
        for answer in ("admitted", "refused"):
            report(binary, text, answer, kind)


if __name__ == "__main__":
    main()
