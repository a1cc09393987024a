# SPDX-License-Identifier: BSD-3-Clause
#
# Warning flags of the core (C++) and of the glue (C); --enable-werror makes them errors.
# Sets adaptib_warn_CXXFLAGS, adaptib_warn_CFLAGS.

AC_DEFUN([ADAPTIB_WARNINGS], [
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [treat warnings as errors])],
        [], [enable_werror=no])
    adaptib_warn_CXXFLAGS="-Wall -Wextra -Wpedantic -Wshadow -Wconversion"
    adaptib_warn_CFLAGS="-Wall -Wextra -Wshadow"
    AS_IF([test "$enable_werror" = yes],
          [adaptib_warn_CXXFLAGS="$adaptib_warn_CXXFLAGS -Werror"
           adaptib_warn_CFLAGS="$adaptib_warn_CFLAGS -Werror"])
    AC_SUBST([adaptib_warn_CXXFLAGS])
    AC_SUBST([adaptib_warn_CFLAGS])
])
