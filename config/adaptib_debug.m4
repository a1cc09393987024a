# SPDX-License-Identifier: BSD-3-Clause
#
# --enable-debug: no optimization, the checks of the standard library, and audits
# (base/invariant.h). Comes before AC_PROG_CC, whose default flags it replaces; flags that the user
# gives win over both.

AC_DEFUN([ADAPTIB_DEBUG], [
    AC_ARG_ENABLE([debug],
        [AS_HELP_STRING([--enable-debug], [build without optimization, with assertions])],
        [], [enable_debug=no])
    AS_IF([test "$enable_debug" = yes],
          [: ${CFLAGS="-g -O0"}
           : ${CXXFLAGS="-g -O0 -D_GLIBCXX_ASSERTIONS -DADAPTIB_AUDITS"}],
          [: ${CFLAGS="-g -O2"}
           : ${CXXFLAGS="-g -O2"}])
])
