# SPDX-License-Identifier: BSD-3-Clause
#
# Prints configure's findings, in a few lines at its end.

AC_DEFUN([ADAPTIB_SUMMARY], [
    adaptib_text_dir=`
        test "$prefix" != NONE || prefix=$ac_default_prefix
        test "$exec_prefix" != NONE || exec_prefix=$prefix
        eval dir="$adaptib_component_dir"
        eval dir="$dir"
        eval echo "$dir"`
    AC_MSG_NOTICE([
  adaptib           $PACKAGE_VERSION
  Open MPI          $adaptib_ompi_version, components in $adaptib_ompi_pkglibdir
  verbs             $adaptib_have_verbs
  rdma_cm           $adaptib_have_rdmacm
  DC (mlx5dv)       $adaptib_have_mlx5dv
  unit tests        $adaptib_have_gtest
  sanitizers        ${adaptib_sanitize_FLAGS:-none}
  make install to   $adaptib_text_dir])
])
