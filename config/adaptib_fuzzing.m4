# SPDX-License-Identifier: BSD-3-Clause
#
# --enable-fuzzing: coverage instrumentation in the core (adaptib_coverage_FLAGS), and the fuzz
# targets of test/fuzz linked with libFuzzer. Needs clang (./configure CXX=clang++ --enable-fuzzing
# --enable-asan).

AC_DEFUN([ADAPTIB_FUZZING], [
    AC_ARG_ENABLE([fuzzing],
        [AS_HELP_STRING([--enable-fuzzing], [build the fuzz targets (with CXX=clang++)])],
        [], [enable_fuzzing=no])
    adaptib_coverage_FLAGS=
    adaptib_fuzz_LDFLAGS=
    AS_IF([test "$enable_fuzzing" = yes],
          [AC_MSG_CHECKING([whether $CXX has libFuzzer])
           AC_LANG_PUSH([C++])
           adaptib_save_CXXFLAGS=$CXXFLAGS
           CXXFLAGS="$CXXFLAGS -fsanitize=fuzzer"
           AC_LINK_IFELSE([AC_LANG_SOURCE([[
#include <cstddef>
#include <cstdint>
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t) { return 0; }
]])],
               [AC_MSG_RESULT([yes])],
               [AC_MSG_RESULT([no])
                ADAPTIB_MISSING([libFuzzer: use CXX=clang++ and its run-time library],
                                [libclang-rt-14-dev])])
           CXXFLAGS=$adaptib_save_CXXFLAGS
           AC_LANG_POP([C++])
           adaptib_coverage_FLAGS="-fsanitize=fuzzer-no-link"
           adaptib_fuzz_LDFLAGS="-fsanitize=fuzzer"])
    AC_SUBST([adaptib_coverage_FLAGS])
    AC_SUBST([adaptib_fuzz_LDFLAGS])
    AM_CONDITIONAL([ADAPTIB_FUZZING], [test "$enable_fuzzing" = yes])
])
