# SPDX-License-Identifier: BSD-3-Clause
#
# Programs of rdma-core and perftest over the virtual adapter, for test/run hca. Sourced by bash.

# name|hosts of server and client|program and arguments. -c checks the data.
hca_programs=(
    'rc_pingpong|a b|ibv_rc_pingpong -c -s 100000'
    'rc_pingpong_events|a b|ibv_rc_pingpong -c -e'
    'rc_pingpong_wr|a b|ibv_rc_pingpong -c -N -s 100000'
    'ud_pingpong|a b|ibv_ud_pingpong -c'
    'ud_pingpong_events|a b|ibv_ud_pingpong -c -e'
    'srq_pingpong|a b|ibv_srq_pingpong -c'
    'rc_pingpong_roce|e f|ibv_rc_pingpong -c -g 1'
    'ud_pingpong_roce|e f|ibv_ud_pingpong -c -g 1'
    'send_lat|a b|ib_send_lat -n 500'
    'send_lat_ud|a b|ib_send_lat -c UD -n 500'
    'send_lat_events|a b|ib_send_lat -e -n 200'
    'write_lat|a b|ib_write_lat -n 200'
    'atomic_lat|a b|ib_atomic_lat -n 500'
    'write_bw|a b|ib_write_bw -n 1000'
    'read_bw|a b|ib_read_bw -n 500'
)

# hca_environment: exports the variables of the adapter. Programs that shall use it need
# LD_LIBRARY_PATH=$hca_library too.
hca_environment() {
    hca_library=$build_root/release/simulator/adapter/.libs
    export ADAPTIB_HCA_TOPOLOGY=$top/test/hca/hosts.topology
    export ADAPTIB_HCA_FABRIC=/dev/shm/adaptib-hca-test-$$
    export ADAPTIB_HCA_HOST=a,b,c,d@OMPI_COMM_WORLD_RANK
}

# hca_pair "SERVER CLIENT|PROGRAM...": runs a program as a server and as its client
hca_pair() {
    local hosts=${1%%|*} server status
    local -a program
    read -ra program <<<"${1#*|}"
    LD_LIBRARY_PATH=$hca_library ADAPTIB_HCA_HOST=${hosts% *} timeout 60 "${program[@]}" &
    server=$!
    sleep 0.7 # until the server listens
    LD_LIBRARY_PATH=$hca_library ADAPTIB_HCA_HOST=${hosts#* } timeout 60 "${program[@]}" localhost
    status=$?
    wait "$server" && [ "$status" = 0 ]
}
