# -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
#
# The BTL's checks: it has no requirements beyond those of the common library. Used by adaptib's own
# configure and, in an Open MPI source tree, by Open MPI's.

# MCA_opal_btl_adaptib_CONFIG(action if it can be built, action if not)
AC_DEFUN([MCA_opal_btl_adaptib_CONFIG], [
    AC_CONFIG_FILES([opal/mca/btl/adaptib/Makefile])

    AS_IF([test "$adaptib_standalone" = yes],
          [btl_adaptib_CPPFLAGS="$adaptib_ompi_CPPFLAGS"
           btl_adaptib_CFLAGS="-std=gnu11 -fvisibility=hidden $adaptib_ompi_CFLAGS"
           btl_adaptib_CFLAGS="$btl_adaptib_CFLAGS $adaptib_warn_CFLAGS $adaptib_sanitize_FLAGS"
           btl_adaptib_LDFLAGS="-shared -Wl,-z,defs $adaptib_mpi_LDFLAGS $adaptib_sanitize_FLAGS"
           btl_adaptib_LIBS="-lopen-pal"],
          [btl_adaptib_CPPFLAGS=
           btl_adaptib_CFLAGS=
           btl_adaptib_LDFLAGS=
           btl_adaptib_LIBS="$common_adaptib_mca_LIBS"])
    AC_SUBST([btl_adaptib_CPPFLAGS])
    AC_SUBST([btl_adaptib_CFLAGS])
    AC_SUBST([btl_adaptib_LDFLAGS])
    AC_SUBST([btl_adaptib_LIBS])

    AS_IF([test "$common_adaptib_happy" = yes], [$1], [$2])
])
