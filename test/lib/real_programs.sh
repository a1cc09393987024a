# SPDX-License-Identifier: BSD-3-Clause
#
# Inputs and results of LAMMPS and of ScaLAPACK's test of LU; sourced by bash.

lu_program=$(echo /usr/lib/*/scalapack/openmpi-tests/xdlu)

# lammps_melt STEPS ROWS: prints the shipped input "melt" with so many steps, and a line of results
# every ROWS steps
lammps_melt() {
    sed -e "s/^run\b.*/run $1/" -e "s/^thermo\b.*/thermo $2/" /usr/share/lammps/examples/melt/in.melt
}

# lammps_results LOG: prints the tables between "Step ..." and "Loop time", without the times
lammps_results() {
    awk '/^ *-* *Step/ { inside = 1 }
         /^Loop time/ { inside = 0; print "atoms " $(NF - 1) }
         inside && !/CPU/ { print }' "$1"
}

# lu_input SIZES ROWS COLUMNS: prints an input with these orders, on two grids of processes with
# these numbers of rows and of columns ("1 2" "2 1")
lu_input() {
    cat <<END
'ScaLAPACK, LU factorization'
'Two grids'
'LU.out'
6 device out
$(wc -w <<<"$1") problem sizes
$1 values of M
$1 values of N
2 values of NB
8 32
1 values of NRHS
9
1 values of NBRHS
7
2 process grids
$2 values of P
$3 values of Q
1.0 threshold
T condition estimation and refinement
END
}

# lu_results OUTPUT: prints the results without times
lu_results() {
    awk '$1 == "WALL" { print $2, $3, $4, $5, $6, $7, $8, $NF }
         / tests .*completed|tests completed|tests skipped/ { print }
         /END OF TESTS/ { print }' "$1"
}
