# SPDX-License-Identifier: BSD-3-Clause
#
# --enable-asan (addresses, undefined behavior, and the standard library's own checks),
# --enable-tsan (threads), both with audits (base/invariant.h): for the unit tests; an ordinary mpirun does not load a component that is
# built in this way. Sets adaptib_sanitize_FLAGS.

AC_DEFUN([ADAPTIB_SANITIZERS], [
    AC_ARG_ENABLE([asan],
        [AS_HELP_STRING([--enable-asan], [build with AddressSanitizer and UBSan])],
        [], [enable_asan=no])
    AC_ARG_ENABLE([tsan],
        [AS_HELP_STRING([--enable-tsan], [build with ThreadSanitizer])],
        [], [enable_tsan=no])
    adaptib_sanitize_FLAGS=
    AS_IF([test "$enable_asan" = yes && test "$enable_tsan" = yes],
          [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other; use two builds])])
    AS_IF([test "$enable_asan" = yes],
          [adaptib_sanitize_FLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS -DADAPTIB_AUDITS"])
    AS_IF([test "$enable_tsan" = yes],
          [# gcc defines the macro by itself.
           adaptib_sanitize_FLAGS="-fsanitize=thread -D__SANITIZE_THREAD__=1 -fno-omit-frame-pointer -DADAPTIB_AUDITS"])
    AS_IF([test -n "$adaptib_sanitize_FLAGS"],
          [AC_MSG_CHECKING([whether $CXX links with $adaptib_sanitize_FLAGS])
           AC_LANG_PUSH([C++])
           adaptib_save_CXXFLAGS=$CXXFLAGS
           CXXFLAGS="$CXXFLAGS $adaptib_sanitize_FLAGS"
           AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
               [AC_MSG_RESULT([yes])],
               [AC_MSG_RESULT([no])
                ADAPTIB_MISSING([the sanitizers' libraries], [g++])])
           CXXFLAGS=$adaptib_save_CXXFLAGS
           AC_LANG_POP([C++])])
    AC_SUBST([adaptib_sanitize_FLAGS])
])
