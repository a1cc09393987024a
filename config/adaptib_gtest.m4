# SPDX-License-Identifier: BSD-3-Clause
#
# GoogleTest, for `make check` only: everything else builds without it.
# Sets GTEST_CFLAGS, GTEST_LIBS and the conditional ADAPTIB_HAVE_GTEST.

AC_DEFUN([ADAPTIB_GTEST], [
    adaptib_have_gtest=no
    PKG_CHECK_MODULES([GTEST], [gtest_main >= 1.11], [adaptib_have_gtest=yes],
        [AC_MSG_NOTICE([no GoogleTest: `make check' will build no unit tests (Debian package: libgtest-dev)])])
    AM_CONDITIONAL([ADAPTIB_HAVE_GTEST], [test "$adaptib_have_gtest" = yes])
])
