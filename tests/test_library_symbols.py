"""Shows that library_symbols.py finds what it is there to find: compiles code that breaks each rule.

usage: test_library_symbols.py NM COMPILER
"""

import os
import subprocess
import sys
import tempfile
import unittest

import library_symbols

NM, COMPILER = sys.argv[1:3]

TIED = "template <class Arch> [[gnu::noinline]] int f(int x) { return x * x; }\n"
LOOSE = "[[gnu::noinline]] inline int g(int x) { return x * x; }\n"


class LibrarySymbols(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def compile(self, name, source, *flags):
        path = os.path.join(self.folder.name, name)
        with open(path + ".cpp", "w", encoding="utf-8") as file:
            file.write(source)
        subprocess.run([COMPILER, "-std=c++20", "-O1", *flags, "-c", path + ".cpp", "-o", path + ".o"], check=True)
        return path + ".o"

    def isa_violations(self, first, second):
        objects = {"sse2": self.compile("sse2", first), "avx2": self.compile("avx2", second)}
        return library_symbols.isa_violations(NM, objects, "sse2")

    def test_symbols_tied_to_their_instruction_set_pass(self):
        first = TIED + "struct sse2; int first(int x) { return f<sse2>(x); }"
        second = TIED + "struct avx2; int second(int x) { return f<avx2>(x); }"
        self.assertEqual(self.isa_violations(first, second), [])

    def test_shared_weak_symbol_is_found(self):
        found = self.isa_violations(LOOSE + "int first(int x) { return g(x); }",
                                    LOOSE + "int second(int x) { return g(x); }")
        self.assertTrue(any("both define" in line for line in found), found)

    def test_loose_weak_symbol_is_found(self):
        found = self.isa_violations("int first(int x) { return x; }", LOOSE + "int second(int x) { return g(x); }")
        self.assertEqual(len(found), 1, found)
        self.assertIn("without 'avx2' in its name", found[0])

    def test_calls_are_found(self):
        for source in ("#include <cstdio>\nvoid f() { std::puts(\"x\"); }",
                       "#include <cstdio>\nvoid f(int x) { std::fprintf(stderr, \"%d\", x); }",
                       "#include <iostream>\nvoid f() { std::cout << 1; }",
                       "#include <cstdlib>\nvoid f() { std::abort(); }",
                       "#include <cstdlib>\nvoid f() { std::exit(1); }"):
            with self.subTest(source):
                self.assertNotEqual(library_symbols.call_violations(NM, self.compile("calls", source), False), [])

    def test_assertions_count_only_where_they_are_off(self):
        source = "#include <cassert>\nvoid f(int x) { assert(x > 0); }"
        with_asserts = self.compile("asserts", source)
        self.assertNotEqual(library_symbols.call_violations(NM, with_asserts, False), [])
        self.assertEqual(library_symbols.call_violations(NM, with_asserts, True), [])
        without = self.compile("no_asserts", source, "-DNDEBUG")
        self.assertEqual(library_symbols.call_violations(NM, without, False), [])

    def test_throwing_is_allowed(self):
        source = "#include <stdexcept>\nvoid f() { throw std::invalid_argument(\"x\"); }"
        self.assertEqual(library_symbols.call_violations(NM, self.compile("throws", source), False), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
