# -*- shell-script -*-
# SPDX-License-Identifier: BSD-3-Clause
#
# The common library's checks. Used by adaptib's own configure and, when the component folders are
# laid over an Open MPI source tree, by Open MPI's. It needs
#   * a C++ compiler that knows C++20 (the core is C++; Open MPI itself is C),
#   * Linux (process_vm_readv, memfd_create),
# and uses libibverbs with libhwloc, librdmacm, and libmlx5's header if configure finds them.

m4_define([ADAPTIB_VERSION_NUMBER], [0.1.0])

# Sets adaptib_cxx20 to yes or no, adaptib_cxx20_FLAG to the flag.
AC_DEFUN([ADAPTIB_CXX20], [
    AC_REQUIRE([AC_PROG_CXX])
    adaptib_cxx20=no
    adaptib_cxx20_FLAG=
    AC_LANG_PUSH([C++])
    adaptib_save_CXXFLAGS=$CXXFLAGS
    for adaptib_flag in -std=c++20 -std=c++2a; do
        AC_MSG_CHECKING([whether $CXX $adaptib_flag compiles the C++20 that adaptib uses])
        CXXFLAGS="$adaptib_save_CXXFLAGS $adaptib_flag"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
#include <bit>
#include <compare>
#include <concepts>
#include <span>
#if __cplusplus <= 201703L
#error "older than C++20"
#endif
template <std::integral T> struct Unit {
    T value;
    auto operator<=>(const Unit&) const = default;
};
struct Options {
    int first = 1;
    int second = 2;
};
]],                 [[
    Options options{.second = 3};
    std::span<int> one(&options.first, 1);
    return std::has_single_bit(8u) && Unit<int>{1} < Unit<int>{2} ? one[0] : options.second;
]])],
            [adaptib_cxx20=yes], [])
        AC_MSG_RESULT([$adaptib_cxx20])
        AS_IF([test "$adaptib_cxx20" = yes], [adaptib_cxx20_FLAG=$adaptib_flag; break])
    done
    CXXFLAGS=$adaptib_save_CXXFLAGS
    AC_LANG_POP([C++])
])

# Sets adaptib_have_verbs, adaptib_have_rdmacm, adaptib_have_mlx5dv, common_adaptib_verbs_LIB (the
# library to build) and common_adaptib_verbs_LIBS (the libraries that the core links).
AC_DEFUN([ADAPTIB_VERBS], [
    adaptib_have_verbs=no
    common_adaptib_verbs_LIB=
    common_adaptib_verbs_LIBS=
    adaptib_save_LIBS=$LIBS
    AC_CHECK_HEADER([infiniband/verbs.h],
        [LIBS="-libverbs $LIBS"
         AC_MSG_CHECKING([for ibv_query_gid_ex and ibv_is_fork_initialized in -libverbs])
         AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <infiniband/verbs.h>]],
                                         [[struct ibv_gid_entry gid;
                                           return ibv_query_gid_ex(0, 1, 0, &gid, 0) +
                                                  (int) ibv_is_fork_initialized();]])],
             [adaptib_have_verbs=yes
              common_adaptib_verbs_LIB=libadaptib_verbs.la
              common_adaptib_verbs_LIBS="libadaptib_verbs.la -libverbs -lhwloc"], [])
         AC_MSG_RESULT([$adaptib_have_verbs])])
    AS_IF([test "$adaptib_have_verbs" = yes],
        [AC_CHECK_LIB([hwloc], [hwloc_distances_get_by_type], [:], [adaptib_have_verbs=no])])
    adaptib_have_rdmacm=no
    AS_IF([test "$adaptib_have_verbs" = yes],
        [AC_CHECK_HEADER([rdma/rdma_cma.h],
             [AC_CHECK_LIB([rdmacm], [rdma_init_qp_attr],
                  [AC_CHECK_LIB([rdmacm], [rdma_establish], [adaptib_have_rdmacm=yes])])])])
    AS_IF([test "$adaptib_have_rdmacm" = yes],
        [common_adaptib_verbs_LIBS="libadaptib_verbs.la -lrdmacm -libverbs -lhwloc"],
        [AC_MSG_NOTICE([no librdmacm: connect_method rdma_cm will be refused (Debian package: librdmacm-dev)])])
    # The core does not link with libmlx5: the fabric finds it where libibverbs has loaded it
    # (fabric/verbs/mlx5_calls.cc).
    adaptib_have_mlx5dv=no
    AS_IF([test "$adaptib_have_verbs" = yes],
        [AC_SEARCH_LIBS([dlopen], [dl])
         AC_MSG_CHECKING([for DC queue pairs in infiniband/mlx5dv.h])
         AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <dlfcn.h>
                                           #include <infiniband/mlx5dv.h>]],
                                         [[struct mlx5dv_qp_init_attr dc;
                                           dc.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
                                           dc.dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT;
                                           mlx5dv_wr_set_dc_addr(0, 0, 0, dc.comp_mask);
                                           return ibv_qp_to_qp_ex(0) != dlopen("libmlx5.so.1", RTLD_NOLOAD);]])],
             [adaptib_have_mlx5dv=yes
              AS_CASE([$ac_cv_search_dlopen], [-l*],
                      [common_adaptib_verbs_LIBS="$common_adaptib_verbs_LIBS $ac_cv_search_dlopen"])], [])
         AC_MSG_RESULT([$adaptib_have_mlx5dv])])
    AS_IF([test "$adaptib_have_mlx5dv" = no],
        [AC_MSG_NOTICE([no mlx5dv: adaptib will know no DC queue pairs of mlx5 adapters (in Debian a part of libibverbs-dev)])])
    LIBS=$adaptib_save_LIBS
    AS_IF([test "$adaptib_have_verbs" = no],
          [common_adaptib_verbs_LIB=
           common_adaptib_verbs_LIBS=
           AC_MSG_NOTICE([no libibverbs, or no libhwloc: adaptib will know no RDMA devices (Debian packages: libibverbs-dev, of rdma-core 35 or newer, and libhwloc-dev)])])
])

# Sets ADAPTIB_HAVE_MPIT_EVENTS. Open MPI has events of MPI_T since 6.0; unmerged proposals had other
# arguments. Inside Open MPI's tree, whose headers cannot be compiled yet, the header's text tells.
AC_DEFUN([ADAPTIB_MPIT_EVENTS], [
    AC_MSG_CHECKING([for MPI_T events in Open MPI])
    ADAPTIB_HAVE_MPIT_EVENTS=0
    AS_IF([test "$adaptib_standalone" = yes],
          [AC_LANG_PUSH([C])
           adaptib_save_CPPFLAGS=$CPPFLAGS
           adaptib_save_LDFLAGS=$LDFLAGS
           adaptib_save_LIBS=$LIBS
           CPPFLAGS="$CPPFLAGS $adaptib_ompi_CPPFLAGS"
           LDFLAGS="$LDFLAGS $adaptib_mpi_LDFLAGS"
           LIBS="-lopen-pal $LIBS"
           AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include "opal_config.h"
#include "opal/mca/base/mca_base_event.h"
#include "opal/mca/base/mca_base_pvar.h"]],
                   [[mca_base_event_t *event = NULL;
                     int index = mca_base_event_register("", "", "", "", "", OPAL_INFO_LVL_4, 0, NULL, NULL, NULL,
                                                         MCA_BASE_VAR_BIND_NO_OBJECT, 0, NULL, NULL);
                     int source = mca_base_event_source_register("", "", MCA_BASE_EVENT_SOURCE_UNORDERED, 1,
                                                                 OPAL_COUNT_MAX, NULL, true, NULL);
                     mca_base_event_get_by_index(index + source, &event);
                     mca_base_event_raise(event, NULL, NULL);]])],
               [ADAPTIB_HAVE_MPIT_EVENTS=1])
           CPPFLAGS=$adaptib_save_CPPFLAGS
           LDFLAGS=$adaptib_save_LDFLAGS
           LIBS=$adaptib_save_LIBS
           AC_LANG_POP([C])],
          [grep 'int mca_base_component_event_register' "$srcdir/opal/mca/base/mca_base_event.h" >/dev/null 2>&1 &&
               grep 'MCA_BASE_EVENT_SOURCE_UNORDERED' "$srcdir/opal/mca/base/mca_base_event.h" >/dev/null 2>&1],
          [ADAPTIB_HAVE_MPIT_EVENTS=1])
    AS_IF([test $ADAPTIB_HAVE_MPIT_EVENTS = 1], [AC_MSG_RESULT([yes])], [AC_MSG_RESULT([no])])
    AC_SUBST([ADAPTIB_HAVE_MPIT_EVENTS])
])

# MCA_opal_common_adaptib_CONFIG(action if it can be built, action if not)
AC_DEFUN([MCA_opal_common_adaptib_CONFIG], [
    AC_CONFIG_FILES([opal/mca/common/adaptib/Makefile
                     opal/mca/common/adaptib/adaptib_config.h])

    ADAPTIB_CXX20
    ADAPTIB_VERBS
    ADAPTIB_MPIT_EVENTS

    AS_IF([test "$adaptib_standalone" = yes],
          [common_adaptib_libdir=$opallibdir
           common_adaptib_bindir=$adaptib_tool_dir
           AS_IF([test "$prefix" = NONE],
                 [common_adaptib_man1dir=$adaptib_tool_dir/man/man1
                  common_adaptib_libexecdir=$adaptib_tool_dir/libexec],
                 [common_adaptib_man1dir='${mandir}/man1'
                  common_adaptib_libexecdir='${libexecdir}/adaptib'])
           common_adaptib_CPPFLAGS=
           common_adaptib_mca_CPPFLAGS="-I\$(top_srcdir) $adaptib_ompi_CPPFLAGS"
           common_adaptib_mca_CFLAGS="-std=gnu11 -fvisibility=hidden $adaptib_ompi_CFLAGS"
           common_adaptib_mca_CFLAGS="$common_adaptib_mca_CFLAGS $adaptib_warn_CFLAGS $adaptib_sanitize_FLAGS"
           common_adaptib_mca_LIBS="-lopen-pal"
           common_adaptib_CXXFLAGS="$adaptib_cxx20_FLAG -fvisibility=hidden -fvisibility-inlines-hidden"
           common_adaptib_CXXFLAGS="$common_adaptib_CXXFLAGS $adaptib_warn_CXXFLAGS $adaptib_sanitize_FLAGS"
           common_adaptib_LDFLAGS="-avoid-version $adaptib_mpi_LDFLAGS $adaptib_sanitize_FLAGS"
           common_adaptib_tool_LDFLAGS="$adaptib_sanitize_FLAGS"
           # Links the .so and not the .la: with the .la, libtool would make the components search
           # the installation directory before their own ($ORIGIN).
           common_adaptib_LIB='-Wl,$(OPAL_TOP_BUILDDIR)/opal/mca/common/adaptib/.libs/libmca_common_adaptib.so'],
          [common_adaptib_libdir='${libdir}'
           common_adaptib_bindir='${bindir}'
           common_adaptib_man1dir='${mandir}/man1'
           common_adaptib_CPPFLAGS=
           common_adaptib_mca_CPPFLAGS=
           common_adaptib_mca_CFLAGS=
           # Open MPI 5 has the whole name in OPAL_LIB_NAME, 4.1 a prefix.
           AS_IF([test -n "$OPAL_LIB_NAME"],
                 [adaptib_pal="lib$OPAL_LIB_NAME.la"],
                 [adaptib_pal="lib${OPAL_LIB_PREFIX}open-pal.la"])
           common_adaptib_mca_LIBS="\$(OPAL_TOP_BUILDDIR)/opal/$adaptib_pal"
           common_adaptib_CXXFLAGS="$adaptib_cxx20_FLAG -fvisibility=hidden -fvisibility-inlines-hidden"
           common_adaptib_LDFLAGS="-version-info 0:0:0"
           common_adaptib_tool_LDFLAGS=
           common_adaptib_LIB='$(OPAL_TOP_BUILDDIR)/opal/mca/common/adaptib/libmca_common_adaptib.la'])
    common_adaptib_LIBS="-lpthread"
    common_adaptib_happy=$adaptib_cxx20
    AS_CASE([$host_os], [linux*], [],
            [AC_MSG_WARN([adaptib needs Linux; $host_os is not])
             common_adaptib_happy=no])

    # Processes and hosts exchange data in little-endian order, and read it without conversion.
    AC_C_BIGENDIAN([m4_ifdef([ADAPTIB_MISSING],
                        [ADAPTIB_MISSING([a little-endian processor: adaptib is not written for big-endian ones])],
                        [AC_MSG_WARN([adaptib is not written for big-endian processors])
                         common_adaptib_happy=no])],
                   [], [], [])

    AC_SUBST([ADAPTIB_VERSION], [ADAPTIB_VERSION_NUMBER])
    AS_IF([test "$adaptib_have_verbs" = yes], [ADAPTIB_HAVE_VERBS=1], [ADAPTIB_HAVE_VERBS=0])
    AC_SUBST([ADAPTIB_HAVE_VERBS])
    AS_IF([test "$adaptib_have_rdmacm" = yes], [ADAPTIB_HAVE_RDMACM=1], [ADAPTIB_HAVE_RDMACM=0])
    AC_SUBST([ADAPTIB_HAVE_RDMACM])
    AS_IF([test "$adaptib_have_mlx5dv" = yes], [ADAPTIB_HAVE_MLX5DV=1], [ADAPTIB_HAVE_MLX5DV=0])
    AC_SUBST([ADAPTIB_HAVE_MLX5DV])
    AC_SUBST([common_adaptib_libdir])
    AC_SUBST([common_adaptib_bindir])
    AC_SUBST([common_adaptib_man1dir])
    AC_SUBST([common_adaptib_libexecdir])
    AC_SUBST([common_adaptib_mca_CPPFLAGS])
    AC_SUBST([common_adaptib_mca_CFLAGS])
    AC_SUBST([common_adaptib_mca_LIBS])
    AC_SUBST([common_adaptib_CPPFLAGS])
    AC_SUBST([common_adaptib_CXXFLAGS])
    AC_SUBST([common_adaptib_LDFLAGS])
    AC_SUBST([common_adaptib_LIBS])
    AC_SUBST([common_adaptib_LIB])
    AC_SUBST([common_adaptib_tool_LDFLAGS])
    AC_SUBST([common_adaptib_verbs_LIB])
    AC_SUBST([common_adaptib_verbs_LIBS])
    # Programs that link Open MPI statically need these too.
    common_adaptib_WRAPPER_EXTRA_LIBS="-lstdc++ -lpthread"
    AS_IF([test "$adaptib_have_verbs" = yes],
          [common_adaptib_WRAPPER_EXTRA_LIBS="-libverbs -lhwloc $common_adaptib_WRAPPER_EXTRA_LIBS"])

    AS_IF([test "$adaptib_have_rdmacm" = yes],
          [common_adaptib_WRAPPER_EXTRA_LIBS="-lrdmacm $common_adaptib_WRAPPER_EXTRA_LIBS"])

    AS_IF([test "$common_adaptib_happy" = yes],
          [$1],
          [m4_ifdef([ADAPTIB_MISSING], [ADAPTIB_MISSING([a compiler for C++20 (g++ 10, clang++ 13, or newer) on Linux], [g++])])
           $2])
])
