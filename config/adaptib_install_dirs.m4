# SPDX-License-Identifier: BSD-3-Clause
#
# Directories to which `make install` copies the components, the common library beside them (they
# find it by $ORIGIN); the programs go to the same place, or to DIR/bin:
#   nothing given                $HOME/.openmpi/components, which Open MPI searches by default
#   --prefix=DIR                 DIR/lib/openmpi
#   --with-component-dir=DIR     DIR
#   --with-component-dir=ompi    Open MPI's own component directory
# The directories have the names that Open MPI's build uses, so that one Makefile.am serves both.

AC_DEFUN([ADAPTIB_INSTALL_DIRS], [
    AC_ARG_WITH([component-dir],
        [AS_HELP_STRING([--with-component-dir=DIR],
            [install the components to DIR; "ompi" means Open MPI's own component directory; default:
             PREFIX/lib/openmpi if --prefix is given, else $HOME/.openmpi/components])],
        [], [with_component_dir=])
    AS_CASE([$with_component_dir],
        [yes|no], [AC_MSG_ERROR([--with-component-dir needs a directory, or "ompi"])],
        [ompi], [adaptib_component_dir=$adaptib_ompi_pkglibdir],
        [/*], [adaptib_component_dir=$with_component_dir],
        [""], [AS_IF([test "$prefix" = NONE],
                     [adaptib_component_dir="$HOME/.openmpi/components"],
                     [adaptib_component_dir='${libdir}/openmpi'])],
        [AC_MSG_ERROR([--with-component-dir: "$with_component_dir" is not an absolute path])])
    # Programs are found by the path if there is a prefix; else they lie beside the components.
    AS_IF([test "$prefix" = NONE],
          [adaptib_tool_dir=$adaptib_component_dir],
          [adaptib_tool_dir='${bindir}'])
    AC_SUBST([ompilibdir], [$adaptib_component_dir])
    AC_SUBST([opallibdir], [$adaptib_component_dir])
    AC_SUBST([OPAL_TOP_BUILDDIR], ['$(abs_top_builddir)'])
    AC_SUBST([OMPI_TOP_BUILDDIR], ['$(abs_top_builddir)'])
])
