# SPDX-License-Identifier: BSD-3-Clause
#
# Collects all requirements that configure has not found, so that one message names all of them.

AC_DEFUN([ADAPTIB_MISSING_INIT], [
    adaptib_missing=
    adaptib_missing_packages=
])

# ADAPTIB_MISSING(what, Debian package or nothing)
AC_DEFUN([ADAPTIB_MISSING], [
    adaptib_missing="$adaptib_missing
  * $1"
    m4_ifnblank([$2], [
        adaptib_missing="$adaptib_missing (Debian package: $2)"
        AS_CASE([" $adaptib_missing_packages "],
                [*" $2 "*], [],
                [adaptib_missing_packages="$adaptib_missing_packages $2"])])
])

AC_DEFUN([ADAPTIB_MISSING_REPORT], [
    AS_IF([test -n "$adaptib_missing"],
          [AS_IF([test -n "$adaptib_missing_packages"],
                 [adaptib_missing="$adaptib_missing
On Debian: apt-get install$adaptib_missing_packages"])
           AC_MSG_ERROR([this is needed and was not found:$adaptib_missing])])
])
