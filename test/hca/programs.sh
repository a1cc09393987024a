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
    hca_mlx5=$build_root/release/simulator/adapter/mlx5/.libs
    export ADAPTIB_HCA_TOPOLOGY=$top/test/hca/hosts.topology
    export ADAPTIB_HCA_FABRIC=/dev/shm/adaptib-hca-test-$$
    export ADAPTIB_HCA_HOST=a,b,c,d@OMPI_COMM_WORLD_RANK
}

# hca_topology NAME DEVICE_SETTINGS [PORT_SETTINGS]: makes a topology file whose InfiniBand devices
# and ports have these settings, and prints its name
hca_topology() {
    sed "s/device v.*/& $2/; s/port lid.*/& ${3:-}/" "$top/test/hca/hosts.topology" \
        >"$logs/hca-$1.topology"
    printf '%s\n' "$logs/hca-$1.topology"
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

hca_btl='--mca pml ob1 --mca btl adaptib,self'
hca_dc='--mca opal_common_adaptib_channel_policy dc_on_demand'

# Jobs with faults: name|device settings|port settings|millionths of packets lost|port that goes
# down and up|arguments of mpirun, which choose the transport if they have "--mca pml "|program; none:
# random_traffic 1 200
hca_faults=(
    'scrambled|in_order=0 scrambled_writes=1||0||'
    'scrambled_1024|in_order=0 scrambled_writes=2|active_mtu=1024|0||'
    'scrambled_2048|in_order=0 scrambled_writes=2|active_mtu=2048|0||'
    'scrambled_4096|in_order=0 scrambled_writes=2|active_mtu=4096|0||'
    "scrambled_1024_btl|in_order=0 scrambled_writes=2|active_mtu=1024|0||$hca_btl"
    "scrambled_2048_btl|in_order=0 scrambled_writes=2|active_mtu=2048|0||$hca_btl"
    "scrambled_4096_btl|in_order=0 scrambled_writes=2|active_mtu=4096|0||$hca_btl"
    'ring_check|||0||--mca opal_common_adaptib_ring_check on'
    'mtu_256||active_mtu=256|0||'
    "mtu_256_btl||active_mtu=256|0||$hca_btl"
    'mtu_256_scrambled|in_order=0 scrambled_writes=2|active_mtu=256|0||'
    "dc|dc=1||0||$hca_dc"
    "dc_btl|dc=1||0||$hca_btl $hca_dc"
    "dc_endpoints|dc=1||0||$hca_dc --mca opal_common_adaptib_endpoints 2"
    "dc_endpoints_btl|dc=1||0||$hca_btl $hca_dc --mca opal_common_adaptib_endpoints 2"
    "dc_loss|dc=1||1000||$hca_dc"
    'loss|||1000|||'
    'flap|||0|b/v0:1||'
    # Threads of several endpoints send meanwhile, over connections and over datagrams only
    'loss_endpoints|||1000||--mca opal_common_adaptib_endpoints 4|threads own 4 200'
    'flap_endpoints|||0|b/v0:1|--mca opal_common_adaptib_endpoints 2|threads own 2 1500'
    'flap_endpoints_16|||0|b/v0:1|--mca opal_common_adaptib_endpoints 16|threads own 4 500'
    'flap_endpoints_datagrams|||0|b/v0:1|--mca opal_common_adaptib_endpoints 2 --mca opal_common_adaptib_channel_policy ud|threads own 2 2000'
    'flap_rma_endpoints|||0|b/v0:1|--mca pml ob1 --mca btl adaptib,self --mca osc rdma --mca opal_common_adaptib_endpoints 4|rma_threads 3 200'
)

# hca_fault "SETTINGS|PORT_SETTINGS|LOSS|PORT|ARGUMENTS|PROGRAM": runs a job of four ranks whose
# data is checked, meanwhile the fault
hca_fault() {
    local settings settings_of_port loss port arguments program
    local device control=$build_root/release/simulator/adapter/adaptib_hca_control
    local -x ADAPTIB_HCA_TOPOLOGY ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-fault
    IFS='|' read -r settings settings_of_port loss port arguments program <<<"$1"
    ADAPTIB_HCA_TOPOLOGY=$(hca_topology fault "$settings" "$settings_of_port")
    for device in {a,b,c,d}/v{0,1}:1; do
        "$control" "$device" loss "$loss" || return
    done
    local flaps= status
    if [ -n "$port" ]; then
        hca_flap "$control" "$port" 3>"$logs/hca-fault.flaps" &
        flaps=$!
    fi
    local transport=("${adaptib_mca[@]}")
    [[ $arguments != *"--mca pml "* ]] || transport=()
    read -ra arguments <<<"$arguments"
    read -ra program <<<"${program:-random_traffic 1 200}"
    LD_LIBRARY_PATH=$hca_library:$hca_mlx5 run_mpi 100 4 "${transport[@]}" "${arguments[@]}" \
        "$build_root/release/test/mpi/${program[0]}" "${program[@]:1}"
    status=$?
    if [ -n "$flaps" ]; then
        [ -s "$logs/hca-fault.flaps" ] || { echo "the job ended before the fault" && status=1; }
        wait "$flaps" || status=1
    fi
    rm -f "$ADAPTIB_HCA_FABRIC"
    return "$status"
}

# hca_misplaced: devices that place packets out of order and say that they do not. ring_check has to
# find that: the job ends with the error, and no rank gets wrong data.
hca_misplaced() {
    local log=$logs/hca-misplaced-job status
    hca_fault "in_order=1 scrambled_writes=2|active_mtu=1024|0||--mca opal_common_adaptib_ring_check on" \
        >"$log" 2>&1
    status=$?
    cat "$log"
    [ "$status" != 0 ] && grep -q 'places the packets of a write out of order' "$log" &&
        ! grep -q 'expected 0x' "$log"
}

# hca_flap CONTROL PORT: takes the port down and up; writes a line to descriptor 3 each time
hca_flap() {
    local count
    sleep 0.8 # until the job runs
    for count in 1 2 3; do
        "$1" "$2" down && echo down >&3 && sleep 0.7 && "$1" "$2" up && sleep 0.5 || return
    done
}

# hca_fault_program SEED: a random fault program. A job of four ranks whose data is checked runs
# while ports go down and up, devices fall silent, and packets are lost, as the seed says. At any
# time the devices of one name (v0 or v1) are without a fault but for loss, so that every two hosts
# have a way. The seed also gives the number of endpoints. The log names the faults.
hca_fault_program() {
    local control=$build_root/release/simulator/adapter/adaptib_hca_control
    local seed=$1 faults status settings
    local -x ADAPTIB_HCA_TOPOLOGY=$logs/hca-program-$$.topology
    local -x ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-program
    local -a choices=('' 'max_inline=0' 'max_sge=2 max_reads=1' 'max_srq=0'
        'in_order=0 scrambled_writes=1' 'in_order=0 scrambled_writes=2')
    RANDOM=$seed
    settings=${choices[RANDOM % ${#choices[@]}]}
    local -x OMPI_MCA_opal_common_adaptib_endpoints=$((1 << RANDOM % 3))
    printf 'seed %s: %s, %s endpoints\n' "$seed" "${settings:-usual devices}" \
        "$OMPI_MCA_opal_common_adaptib_endpoints"
    sed "s/device v.*/& $settings/" "$top/test/hca/hosts.topology" >"$ADAPTIB_HCA_TOPOLOGY"
    rm -f "$ADAPTIB_HCA_FABRIC"
    hca_random_faults "$control" "$seed" &
    faults=$!
    LD_LIBRARY_PATH=$hca_library run_mpi 120 4 "${adaptib_mca[@]}" \
        "$build_root/release/test/mpi/random_traffic" "$seed" 400
    status=$?
    kill "$faults" 2>/dev/null
    wait "$faults" 2>/dev/null
    rm -f "$ADAPTIB_HCA_FABRIC" "$ADAPTIB_HCA_TOPOLOGY"
    return "$status"
}

# hca_random_faults CONTROL SEED: rounds of faults, until it is killed
hca_random_faults() {
    local round host device kind
    local -a kinds=(down down silent)
    RANDOM=$(($2 + 1))
    sleep 0.$((RANDOM % 9 + 1))
    for ((round = 0; round < 40; ++round)); do
        device=v$((RANDOM % 2)):1
        hca_fault_step "$1" {a,b,c,d}/v{0,1}:1 loss $((RANDOM % 3 * 300))
        for host in a b c d; do
            kind=${kinds[RANDOM % 3]}
            [ $((RANDOM % 2)) = 0 ] || hca_fault_step "$1" "$host/$device" "$kind"
        done
        sleep 0.$((RANDOM % 9 + 1))
        hca_fault_step "$1" {a,b,c,d}/"$device" up
        sleep 1.$((RANDOM % 9))
    done
}

# hca_fault_step CONTROL PORT... FAULT: sets a fault of ports, and says so
hca_fault_step() {
    local control=$1 word ports=()
    shift
    for word in "$@"; do
        [[ $word == */* ]] && ports+=("$word")
    done
    printf '%s %s\n' "${EPOCHREALTIME}" "$*"
    for word in "${ports[@]}"; do
        "$control" "$word" "${@:${#ports[@]}+1}" || return
    done
}

# hca_ucx TEST: a test of UCX between two hosts, over reliable connections and datagrams
hca_ucx() {
    local -x LD_LIBRARY_PATH=$hca_library UCX_NET_DEVICES=v0:1 UCX_TLS=rc_verbs,ud_verbs,self server
    local -x LD_PRELOAD=$hca_library/libadaptib_hca_files.so
    ADAPTIB_HCA_HOST=a timeout 60 ucx_perftest -p 18790 &
    server=$!
    sleep 1
    ADAPTIB_HCA_HOST=b timeout 60 ucx_perftest localhost -p 18790 -t "$1" -n 1000 -s 40000 || return
    wait "$server"
}
