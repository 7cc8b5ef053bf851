"""Checks on the symbols of the library's object files, read with nm.

isa:   no function may be compiled for an instruction set and be taken by the linker for code that runs on every
       processor. So no two instruction sets' objects define the same weak symbol (an inline function or a template),
       and each weak symbol beyond the baseline has its instruction set in its name.
calls: the library neither prints, nor aborts, nor exits.
"""

import argparse
import subprocess
import sys

# Weak kinds in nm's letters: function or untyped, object, unique object.
WEAK_KINDS = {"W", "V", "u"}

# Weak symbols that the compilers make up, without arithmetic in them.
COMPILER_SYMBOLS = {"__clang_call_terminate", "DW.ref.__gxx_personality_v0"}

PRINTING = """
    printf vprintf fprintf vfprintf dprintf vdprintf __printf_chk __fprintf_chk __vprintf_chk __vfprintf_chk
    __dprintf_chk puts fputs putc fputc putchar _IO_putc fwrite write perror psignal syslog stdout stderr
    _ZSt4cout _ZSt4cerr _ZSt4clog _ZSt5wcout _ZSt5wcerr _ZSt5wclog
    """.split()
ENDING = "abort exit _exit _Exit quick_exit raise kill pthread_kill tgkill pthread_exit".split()
ASSERTING = ["__assert_fail", "__assert_perror_fail"]


def read_symbols(nm, path):
    """(kind, name) of each symbol in an object file, or in all members of an archive."""
    listing = subprocess.run([nm, "-P", path], check=True, capture_output=True, text=True).stdout
    fields = [line.split() for line in listing.splitlines()]
    return {(f[1], f[0].partition("@")[0]) for f in fields if len(f) >= 2 and len(f[1]) == 1}


def weak_definitions(nm, path):
    return {name for kind, name in read_symbols(nm, path) if kind in WEAK_KINDS} - COMPILER_SYMBOLS


def isa_violations(nm, objects, baseline):
    """objects: instruction set -> object file."""
    weak = {isa: weak_definitions(nm, path) for isa, path in objects.items()}
    found = []
    for isa, names in weak.items():
        if isa != baseline:
            found += [f"{isa}: weak symbol without '{isa}' in its name: {n}" for n in sorted(names) if isa not in n]
        found += [f"{isa} and {other} both define the weak symbol {n}"
                  for other in weak if other > isa for n in sorted(names & weak[other])]
    return found


def call_violations(nm, library, asserts):
    """asserts: the library was compiled with assert() on."""
    used = {name for kind, name in read_symbols(nm, library) if kind == "U"}
    forbidden = PRINTING + ENDING + ([] if asserts else ASSERTING)
    return [f"the library refers to {name}" for name in forbidden if name in used]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nm", default="nm", help="the nm program for the object files")
    commands = parser.add_subparsers(dest="command", required=True)
    isa = commands.add_parser("isa", help="weak symbols of the instruction sets")
    isa.add_argument("--baseline", required=True, help="the instruction set that every processor of the family has")
    isa.add_argument("objects", nargs="+", metavar="ISA=OBJECT")
    calls = commands.add_parser("calls", help="printing, aborting, exiting")
    calls.add_argument("--asserts", choices=["on", "off"], default="off", help="how assert() was compiled")
    calls.add_argument("library")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.command == "isa":
        objects = dict(pair.split("=", 1) for pair in arguments.objects)
        found = isa_violations(arguments.nm, objects, arguments.baseline)
    else:
        found = call_violations(arguments.nm, arguments.library, arguments.asserts == "on")
    for line in found:
        print(line)
    print(f"{arguments.command}: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
