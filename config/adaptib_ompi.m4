# SPDX-License-Identifier: BSD-3-Clause
#
# The installed Open MPI: its version, its directories, its internal headers and its libraries.
# Sets adaptib_ompi_version, adaptib_ompi_pkglibdir and substitutes
#   adaptib_ompi_CPPFLAGS   internal headers and mpi.h
#   adaptib_mpi_CPPFLAGS    mpi.h alone, for MPI programs
#   adaptib_mpi_LIBS        libopen-pal, and the library that has Open MPI's internal functions
#   adaptib_program_LIBS    what MPI programs link
#   adaptib_ompi_CFLAGS     compiler flags that its inline functions need
# and sets adaptib_ompi_accelerator to yes if it has the framework `accelerator` (5.0, 6.0).
# Packages of Open MPI 5 and 6 may lack internal headers that their other headers include (Debian's
# do); configure then takes them from a source tree of the same version (--with-ompi-source).

# _ADAPTIB_OMPI_PATH(variable, key): sets the variable to ompi_info's path of the directory `key`
AC_DEFUN([_ADAPTIB_OMPI_PATH], [
    $1=`"$adaptib_ompi_info" --path $2 --parsable 2>/dev/null | sed -n 's/^path:$2://p' | head -n 1`
])

AC_DEFUN([ADAPTIB_OMPI], [
    AC_ARG_WITH([ompi],
        [AS_HELP_STRING([--with-ompi=DIR],
            [the Open MPI installed below DIR (default: the one whose ompi_info is on PATH)])],
        [], [with_ompi=yes])
    AC_ARG_WITH([ompi-source],
        [AS_HELP_STRING([--with-ompi-source=DIR],
            [internal headers that the installed Open MPI lacks are in its unpacked sources DIR])],
        [], [with_ompi_source=no])
    AS_CASE([$with_ompi],
        [no], [AC_MSG_ERROR([adaptib cannot be built without Open MPI])],
        [yes], [AC_PATH_PROG([adaptib_ompi_info], [ompi_info])
                AC_PATH_PROG([adaptib_mpicc], [mpicc.openmpi])
                AS_IF([test -z "$adaptib_mpicc"], [AC_PATH_PROG([adaptib_mpicc], [mpicc])])],
        [adaptib_ompi_info=$with_ompi/bin/ompi_info
         adaptib_mpicc=$with_ompi/bin/mpicc])

    adaptib_ompi_version=
    adaptib_ompi_pkglibdir=
    adaptib_ompi_libdirs=
    adaptib_ompi_accelerator=no
    adaptib_ompi_CPPFLAGS=
    AS_IF([test -z "$adaptib_ompi_info" || test ! -x "$adaptib_ompi_info"],
          [AS_CASE([$with_ompi],
               [yes], [ADAPTIB_MISSING([ompi_info: Open MPI's programs], [openmpi-bin])],
               [ADAPTIB_MISSING([$with_ompi/bin/ompi_info, as --with-ompi says])])],
          [_ADAPTIB_OMPI_INSPECT])
    AS_IF([test -z "$adaptib_mpicc" || test ! -x "$adaptib_mpicc"],
          [ADAPTIB_MISSING([mpicc: Open MPI's compiler wrapper and headers], [libopenmpi-dev])],
          [test -n "$adaptib_ompi_version"],
          [_ADAPTIB_OMPI_HEADERS])
    AC_LANG_PUSH([C])
    AC_CHECK_HEADER([hwloc.h], [],
        [ADAPTIB_MISSING([hwloc.h, which Open MPI's internal headers include], [libhwloc-dev])])
    AC_LANG_POP([C])

    adaptib_mpi_CPPFLAGS="-isystem $adaptib_ompi_incdir"
    AC_SUBST([adaptib_ompi_CPPFLAGS])
    AC_SUBST([adaptib_ompi_CFLAGS])
    AC_SUBST([adaptib_mpi_CPPFLAGS])
    AC_SUBST([adaptib_mpi_LDFLAGS])
    AC_SUBST([adaptib_mpi_LIBS])
    AC_SUBST([adaptib_program_LIBS])
    AC_SUBST([adaptib_ompi_pkglibdir])
])

AC_DEFUN([_ADAPTIB_OMPI_INSPECT], [
    AC_MSG_CHECKING([for the version of Open MPI])
    adaptib_ompi_version=`"$adaptib_ompi_info" --version 2>/dev/null | sed -n 's/^Open MPI v//p' | head -n 1`
    AC_MSG_RESULT([$adaptib_ompi_version])
    AS_IF([test -z "$adaptib_ompi_version"],
          [AC_MSG_ERROR([$adaptib_ompi_info --version does not name an Open MPI version; is it Open MPI's?])])
    AS_VERSION_COMPARE([$adaptib_ompi_version], [4.1.0],
          [AC_MSG_ERROR([Open MPI $adaptib_ompi_version ($adaptib_ompi_info) is too old: adaptib needs 4.1.0 or
newer. Install a newer one, or name it by --with-ompi=DIR.])])
    _ADAPTIB_OMPI_PATH([adaptib_ompi_incdir], [incdir])
    _ADAPTIB_OMPI_PATH([adaptib_ompi_pkgincludedir], [pkgincludedir])
    _ADAPTIB_OMPI_PATH([adaptib_ompi_pkglibdir], [pkglibdir])
    AC_MSG_CHECKING([for Open MPI's component directory])
    AC_MSG_RESULT([$adaptib_ompi_pkglibdir])
    AS_CASE([$with_ompi_source], [no], [], [_ADAPTIB_OMPI_SOURCE])
])

# REQUIRES: the sources are of the installed version, since structures differ.
AC_DEFUN([_ADAPTIB_OMPI_SOURCE], [
    AC_MSG_CHECKING([for the version of Open MPI's sources])
    adaptib_source_version=`(. "$with_ompi_source/VERSION" && echo "$major.$minor.$release$greek") 2>/dev/null`
    AC_MSG_RESULT([${adaptib_source_version:-none}])
    AS_IF([test "$adaptib_source_version" != "$adaptib_ompi_version"],
          [AC_MSG_ERROR([--with-ompi-source=$with_ompi_source has to name the unpacked sources of Open MPI
$adaptib_ompi_version, the one that is installed])])
    with_ompi_source=`cd "$with_ompi_source" && pwd`
])

# Headers of Open MPI 5 include PMIx's as <pmix.h>.
AC_DEFUN([_ADAPTIB_OMPI_PMIX], [
    for adaptib_flag in `"$PKG_CONFIG" --cflags-only-I pmix 2>/dev/null`; do
        adaptib_ompi_CPPFLAGS="$adaptib_ompi_CPPFLAGS -isystem ${adaptib_flag#-I}"
    done
])

AC_DEFUN([_ADAPTIB_OMPI_HEADERS], [
    adaptib_ompi_CPPFLAGS="-isystem $adaptib_ompi_pkgincludedir -isystem $adaptib_ompi_incdir"
    AS_CASE([$with_ompi_source], [no], [],
        [adaptib_ompi_CPPFLAGS="$adaptib_ompi_CPPFLAGS -isystem $with_ompi_source"])
    AS_VERSION_COMPARE([$adaptib_ompi_version], [5.0.0], [],
        [_ADAPTIB_OMPI_PMIX], [_ADAPTIB_OMPI_PMIX])
    adaptib_mpi_LDFLAGS=
    for adaptib_dir in `"$adaptib_mpicc" --showme:libdirs 2>/dev/null`; do
        adaptib_mpi_LDFLAGS="$adaptib_mpi_LDFLAGS -L$adaptib_dir"
    done
    adaptib_program_LIBS=
    for adaptib_lib in `"$adaptib_mpicc" --showme:libs 2>/dev/null`; do
        adaptib_program_LIBS="$adaptib_program_LIBS -l$adaptib_lib"
    done
    AS_IF([test -z "$adaptib_program_LIBS"], [adaptib_program_LIBS=-lmpi])
    AC_LANG_PUSH([C])
    adaptib_save_CPPFLAGS=$CPPFLAGS
    adaptib_save_LIBS=$LIBS
    adaptib_save_LDFLAGS=$LDFLAGS
    CPPFLAGS="$CPPFLAGS $adaptib_ompi_CPPFLAGS"
    LDFLAGS="$LDFLAGS $adaptib_mpi_LDFLAGS"
    AS_IF([test ! -f "$adaptib_ompi_incdir/mpi.h"],
          [ADAPTIB_MISSING([$adaptib_ompi_incdir/mpi.h: Open MPI's headers], [libopenmpi-dev])],
          [test ! -f "$adaptib_ompi_pkgincludedir/opal_config.h"],
          [ADAPTIB_MISSING([Open MPI's internal headers below $adaptib_ompi_pkgincludedir (an Open MPI of your own
    has them if it is configured with --with-devel-headers)], [libopenmpi-dev])],
          [AC_CHECK_HEADER([ompi/mca/mtl/mtl.h], [],
               [ADAPTIB_MISSING([a usable ompi/mca/mtl/mtl.h below $adaptib_ompi_pkgincludedir (config.log says what is
    wrong with it; headers that are missing there can be taken from Open MPI's sources: --with-ompi-source=DIR)],
                    [libopenmpi-dev])],
               [#include "ompi_config.h"])
           AC_CHECK_HEADER([opal/mca/btl/btl.h], [],
               [ADAPTIB_MISSING([a usable opal/mca/btl/btl.h below $adaptib_ompi_pkgincludedir], [libopenmpi-dev])],
               [#include "opal_config.h"])
           AC_CHECK_HEADERS([opal/mca/pmix/pmix-internal.h opal/mca/pmix/pmix.h],
               [adaptib_pmix_header=$ac_header; break], [], [#include "opal_config.h"])
           AC_CHECK_HEADER([opal/mca/accelerator/accelerator.h],
               [AS_VERSION_COMPARE([$adaptib_ompi_version], [6.9], [adaptib_ompi_accelerator=yes])], [],
               [#include "opal_config.h"])
           AS_IF([test -z "$adaptib_pmix_header"],
               [ADAPTIB_MISSING([a usable Open MPI interface to PMIx (opal/mca/pmix)], [libpmix-dev])])
           _ADAPTIB_OMPI_LIBS
           _ADAPTIB_OMPI_ATOMICS])
    CPPFLAGS=$adaptib_save_CPPFLAGS
    LDFLAGS=$adaptib_save_LDFLAGS
    LIBS=$adaptib_save_LIBS
    AC_LANG_POP([C])
])

# The internal functions are in libmpi; since 6.0 in libopen_mpi, which programs use by libmpi or, if
# they are made for the standard ABI, by libmpi_abi. So a component must not link libmpi there.
AC_DEFUN([_ADAPTIB_OMPI_LIBS], [
    AC_MSG_CHECKING([for the libraries that a component links with])
    adaptib_mpi_LIBS=
    for adaptib_lib in -lopen_mpi -lmpi; do
        LIBS="$adaptib_lib -lopen-pal $adaptib_save_LIBS"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[extern int opal_progress(void); extern int mca_pml;]],
                                        [[return mca_pml + opal_progress();]])],
            [adaptib_mpi_LIBS="$adaptib_lib -lopen-pal"; break])
    done
    LIBS="$adaptib_mpi_LIBS $adaptib_save_LIBS"
    AC_MSG_RESULT([${adaptib_mpi_LIBS:-none}])
    AS_IF([test -z "$adaptib_mpi_LIBS"],
          [ADAPTIB_MISSING([libmpi (libopen_mpi) and libopen-pal to link with], [libopenmpi-dev])])
])

# Open MPI's lists swap 16 bytes at once where the processor can, in inline functions. A component
# must compile these functions in the same way.
AC_DEFUN([_ADAPTIB_OMPI_ATOMICS], [
    AC_MSG_CHECKING([for the flag that Open MPI's atomic operations need])
    adaptib_save_CFLAGS=$CFLAGS
    adaptib_ompi_CFLAGS=unknown
    for adaptib_flag in "" -mcx16; do
        CFLAGS="$adaptib_save_CFLAGS $adaptib_flag"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include "opal_config.h"
#include "opal/class/opal_lifo.h"
opal_lifo_t lifo;]],
            [[return 0 == opal_lifo_pop_atomic(&lifo);]])],
            [adaptib_ompi_CFLAGS=$adaptib_flag; break])
    done
    CFLAGS=$adaptib_save_CFLAGS
    AC_MSG_RESULT([${adaptib_ompi_CFLAGS:-none}])
    AS_IF([test "$adaptib_ompi_CFLAGS" = unknown],
          [ADAPTIB_MISSING([atomic operations as Open MPI's opal/class/opal_lifo.h wants them from $CC])
           adaptib_ompi_CFLAGS=])
])
