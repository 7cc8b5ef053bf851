"""Checks that a shared library exports the functions of the public headers and nothing else.

usage: exported_names.py NM LIBRARY INCLUDE_FOLDER
"""

import pathlib
import re
import subprocess
import sys


def exported(nm, library):
    """Demangled names that the dynamic symbol table defines."""
    listing = subprocess.run([nm, "-D", "--defined-only", "-C", library], check=True, capture_output=True,
                             text=True).stdout
    return {line.split(maxsplit=2)[2] for line in listing.splitlines()}


def without_comments(text):
    return re.sub(r"//.*", "", text)


def c_functions(header):
    return set(re.findall(r"\b(headwise_\w+)\(", without_comments(header.read_text())))


def cpp_functions(header):
    """Functions that are declared at namespace scope without a body, and class templates the library instantiates."""
    text = without_comments(header.read_text()).replace("= {}", "")
    declaration = re.compile(
        r"^(?!inline|constexpr|using|extern)[A-Za-z][\w:<>,&* ]*?\b(\w+)\([^{};]*\)[^{};]*;", re.MULTILINE)
    return set(declaration.findall(text)) | set(re.findall(r"^extern template class (\w+)<", text, re.MULTILINE))


def identifier(name):
    """The parts after headwise:: of a demangled C++ name; nothing where it is not one of that namespace."""
    name = name.partition("(")[0]
    while "<" in name:
        shorter = re.sub(r"<[^<>]*>", "", name)
        if shorter == name:
            break
        name = shorter
    parts = name.split()[-1].split("::")
    words = [part.lstrip("~") for part in parts[1:] if not part.startswith("operator")]
    return words if parts[0] == "headwise" else []


def main():
    nm, library, include = sys.argv[1:]
    headers = sorted((pathlib.Path(include) / "headwise").glob("*.h*"))
    wanted_c = set().union(*(c_functions(h) for h in headers if h.suffix == ".h"))
    wanted_cpp = set().union(*(cpp_functions(h) for h in headers if h.suffix == ".hpp"))
    words = {word for h in headers for word in re.findall(r"\w+", without_comments(h.read_text()))}
    found_c, found_cpp, violations = set(), set(), []
    for name in exported(nm, library):
        path = identifier(name)
        if re.fullmatch(r"headwise_\w+", name):
            found_c.add(name)
        elif path and all(part in words for part in path):
            found_cpp.update(path)
        else:
            violations.append(f"exported, but in no public header: {name}")
    violations += [f"exported, but not in headwise.h: {name}" for name in sorted(found_c - wanted_c)]
    violations += [f"not exported: {name}" for name in sorted(wanted_c - found_c)]
    violations += [f"not exported: headwise::{name}" for name in sorted(wanted_cpp - found_cpp)]
    for line in violations:
        print(line)
    print(f"{len(found_c)} functions of C and {len(found_cpp)} names of C++ exported, {len(violations)} violations")
    return 1 if violations or not found_c or not found_cpp else 0


if __name__ == "__main__":
    sys.exit(main())
