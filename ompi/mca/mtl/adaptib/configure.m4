# -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
#
# The MTL's checks: it has no requirements beyond those of the common library. Used by adaptib's own
# configure and, in an Open MPI source tree, by Open MPI's.

# MCA_ompi_mtl_adaptib_POST_CONFIG(1 if it will be built)
# Reserves a place for the peer's handle in ompi_proc_t, in Open MPI's build only.
AC_DEFUN([MCA_ompi_mtl_adaptib_POST_CONFIG], [
    AS_IF([test "$1" = "1"], [OMPI_REQUIRE_ENDPOINT_TAG([MTL])])
])

# MCA_ompi_mtl_adaptib_CONFIG(action if it can be built, action if not)
AC_DEFUN([MCA_ompi_mtl_adaptib_CONFIG], [
    AC_CONFIG_FILES([ompi/mca/mtl/adaptib/Makefile])

    AS_IF([test "$adaptib_standalone" = yes],
          [mtl_adaptib_CPPFLAGS="$adaptib_ompi_CPPFLAGS"
           mtl_adaptib_CFLAGS="-std=gnu11 -fvisibility=hidden $adaptib_ompi_CFLAGS"
           mtl_adaptib_CFLAGS="$mtl_adaptib_CFLAGS $adaptib_warn_CFLAGS $adaptib_sanitize_FLAGS"
           mtl_adaptib_LDFLAGS="-shared -Wl,-z,defs $adaptib_mpi_LDFLAGS $adaptib_sanitize_FLAGS"
           mtl_adaptib_LIBS="$adaptib_mpi_LIBS"],
          [mtl_adaptib_CPPFLAGS=
           mtl_adaptib_CFLAGS=
           mtl_adaptib_LDFLAGS=
           mtl_adaptib_LIBS='$(top_builddir)/ompi/lib$(OMPI_LIBMPI_NAME).la'])
    AC_SUBST([mtl_adaptib_CPPFLAGS])
    AC_SUBST([mtl_adaptib_CFLAGS])
    AC_SUBST([mtl_adaptib_LDFLAGS])
    AC_SUBST([mtl_adaptib_LIBS])

    AS_IF([test "$common_adaptib_happy" = yes], [$1], [$2])
])
