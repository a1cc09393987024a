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
    export ADAPTIB_HCA_TOPOLOGY
    ADAPTIB_HCA_TOPOLOGY=$(hca_topology "${ADAPTIB_HCA_DRIVER:-hosts}" "")
    export ADAPTIB_HCA_FABRIC=/dev/shm/adaptib-hca-test-$$
    export ADAPTIB_HCA_HOST=a,b,c,d@OMPI_COMM_WORLD_RANK
}

# hca_lacks_infiniband DRIVER: returns 0 if the driver's devices have Ethernet ports only
hca_lacks_infiniband() { [[ $1 =~ ^(bnxt_re|irdma|rxe|siw|efa|hns)$ ]]; }

# hca_topology NAME DEVICE_SETTINGS [PORT_SETTINGS]: makes a topology file whose devices and
# InfiniBand ports have these settings, and prints its name. ADAPTIB_HCA_DRIVER: the driver of all
# devices; those without InfiniBand get RoCE ports in the place of InfiniBand's, and no settings.
hca_topology() {
    local driver=${ADAPTIB_HCA_DRIVER:-} ports="s/port lid.*/& ${3:-}/"
    case $2 in driver=*) driver= ;; esac
    ! hca_lacks_infiniband "$driver" || ports='s/port lid=([0-9]+).*/port link=ethernet gid=10.3.0.\1/; /^(link|route) /d'
    sed -E "s/device [vr].*/& ${driver:+driver=$driver} $2/; $ports" "$top/test/hca/hosts.topology" \
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
hca_roce='-x ADAPTIB_HCA_HOST=e,f@OMPI_COMM_WORLD_RANK'
hca_one='--mca opal_common_adaptib_if_include v0'
hca_lids='--mca opal_common_adaptib_striping_threshold 4096 --mca opal_common_adaptib_striping_policy'
hca_relaxed='--mca opal_common_adaptib_relaxed_ordering on --mca opal_common_adaptib_rendezvous put'
hca_dc='--mca opal_common_adaptib_channel_policy dc_on_demand'

# Jobs with faults: name|device settings|port settings|millionths of packets lost|what happens
# meanwhile (hca_flap, hca_remove, hca_reset, hca_lose_arp, hca_mac, hca_dead, hca_vanish, hca_new_lid or
# hca_events, with its arguments)|arguments of mpirun, which choose the transport if they have "--mca pml "|program; none:
# random_traffic 1 200
hca_faults=(
    'scrambled|in_order=0 scrambled_writes=1||0||'
    'scrambled_1024|in_order=0 scrambled_writes=2|active_mtu=1024|0||'
    'scrambled_2048|in_order=0 scrambled_writes=2|active_mtu=2048|0||'
    'scrambled_4096|in_order=0 scrambled_writes=2|active_mtu=4096|0||'
    "scrambled_1024_btl|in_order=0 scrambled_writes=2|active_mtu=1024|0||$hca_btl"
    "scrambled_2048_btl|in_order=0 scrambled_writes=2|active_mtu=2048|0||$hca_btl"
    "scrambled_4096_btl|in_order=0 scrambled_writes=2|active_mtu=4096|0||$hca_btl"
    'scrambled_order|scrambled_order=1||0||'
    "scrambled_order_btl|scrambled_order=1||0||$hca_btl"
    'scrambled_order_2|scrambled_order=2||0||'
    "scrambled_order_2_btl|scrambled_order=2||0||$hca_btl"
    # Devices as real drivers have them
    'driver_mlx5|driver=mlx5||0||'
    'driver_mlx4|driver=mlx4||0||'
    'driver_hfi1|driver=hfi1||0||'
    "driver_hfi1_btl|driver=hfi1||0||$hca_btl"
    'driver_hfi1_one_way|driver=hfi1||0|||one_way 20000 100'
    'driver_hfi1_loss|driver=hfi1||1000||'
    'driver_qib|driver=qib||0||'
    'driver_strict|driver=strict||0||'
    "driver_strict_btl|driver=strict||0||$hca_btl"
    "driver_bnxt_re|driver=bnxt_re||0||$hca_roce"
    "driver_irdma|driver=irdma||0||$hca_roce"
    "driver_rxe|driver=rxe||0||$hca_roce"
    # more receives than a completion queue holds entries
    "driver_rxe_deep|driver=rxe||0||$hca_roce --mca opal_common_adaptib_datagram_buffers 65536"
    "driver_hns|driver=hns||0||$hca_roce"
    # A device is taken away and comes back
    'removed_mlx5|driver=mlx5||0|remove b/v0:1||'
    'removed_hfi1|driver=hfi1||0|remove b/v0:1||random_traffic 1 400'
    # The only devices of processes are removed, and each comes back
    "returned_mlx5|driver=mlx5||0|reset b/v0:1 a/v0:1 b/v0:1|$hca_one|random_traffic 1 400"
    "returned_mlx4|driver=mlx4||0|reset b/v0:1 a/v0:1|$hca_one|random_traffic 1 400"
    "returned_strict|driver=strict||0|reset b/v0:1 a/v0:1|$hca_one|random_traffic 1 400"
    "returned_put|driver=mlx5||0|reset b/v0:1 a/v0:1 b/v0:1|$hca_one --mca opal_common_adaptib_rendezvous put|random_traffic 1 400"
    "returned_roce|driver=mlx5||0|reset e/r0:1 e/r0:1|-x ADAPTIB_HCA_HOST=e,f,f,f@OMPI_COMM_WORLD_RANK|random_traffic 1 400"
    "returned_datagrams|driver=mlx5||0|reset b/v0:1 a/v0:1|$hca_one --mca opal_common_adaptib_channel_policy ud|random_traffic 1 400"
    "returned_dc|dc=1||0|reset b/v0:1 a/v0:1|$hca_one $hca_dc|random_traffic 1 400"
    "returned_endpoints|driver=mlx5||0|reset b/v0:1 a/v0:1|$hca_one --mca opal_common_adaptib_endpoints 2|threads own 2 1500"
    "returned_btl|driver=mlx5||0|reset b/v0:1 a/v0:1|$hca_one $hca_btl|random_traffic 1 400"
    "returned_windows_btl|driver=mlx5||0|reset b/v0:1 a/v0:1|$hca_one $hca_btl --mca osc rdma|rma_stress --seed 1 --rounds 40 --only contents --flavors create,allocate --hang 90"
    # Of two devices one, which carries its part again
    "returned_two|driver=mlx5||0|reset b/v0:1 b/v1:1 b/v0:1||random_traffic 1 400"
    # Neighbors' answers to ARP get lost at first contact; a port gets another MAC address
    "lost_arp|||0|lose_arp e/r0:1|$hca_roce"
    "lost_arp_btl|||0|lose_arp e/r0:1|$hca_btl $hca_roce"
    "mac_datagrams|||0|mac f/r0:1|$hca_roce --mca opal_common_adaptib_channel_policy ud|random_traffic 1 400"
    "mac|||0|mac f/r0:1|$hca_roce|random_traffic 1 400"
    "mac_soon|||0|mac f/r0:1 4|-x ADAPTIB_HCA_HOST=e,f,e,f@OMPI_COMM_WORLD_RANK|pauses 10 2.5 0"
    "mac_soon_datagrams|||0|mac f/r0:1 4|-x ADAPTIB_HCA_HOST=e,f,e,f@OMPI_COMM_WORLD_RANK --mca opal_common_adaptib_channel_policy ud|pauses 10 2.5 0"
    # Hosts of processes that owe an answer are dead, and do not answer ARP: others lose no time by that
    "dead_hosts|||0|dead k/r0:1 l/r0:1|-x ADAPTIB_HCA_HOST=e,f,k,l@OMPI_COMM_WORLD_RANK|pauses 8 0.5 70"
    "dead_hosts_btl|||0|dead k/r0:1 l/r0:1|$hca_btl -x ADAPTIB_HCA_HOST=e,f,k,l@OMPI_COMM_WORLD_RANK|pauses 8 0.5 70"
    # Fewer queue pairs than peers, and the error of a control group
    'few_queue_pairs|max_qp=7||0||'
    'few_queue_pairs_eagain|max_qp=7 full_error=11||0||'
    # Regions whose writes may be placed in any order. With two adapters adaptib registers none so
    # that peers write into
    'relaxed_order|relaxed_order=1||0||'
    "relaxed_order_two|relaxed_order=1||0||$hca_relaxed"
    "relaxed_order_one|relaxed_order=1||0||$hca_relaxed --mca opal_common_adaptib_if_include v0"
    "relaxed_order_btl|relaxed_order=1||0||$hca_btl $hca_relaxed --mca opal_common_adaptib_if_include v0"
    'scrambled_order_loss|scrambled_order=1 in_order=0 scrambled_writes=2||1000||'
    'ring_check|||0||--mca opal_common_adaptib_ring_check on'
    'mtu_256||active_mtu=256|0||'
    "mtu_256_btl||active_mtu=256|0||$hca_btl"
    'mtu_256_scrambled|in_order=0 scrambled_writes=2|active_mtu=256|0||'
    "dc|dc=1||0||$hca_dc"
    "dc_btl|dc=1||0||$hca_btl $hca_dc"
    "dc_endpoints|dc=1||0||$hca_dc --mca opal_common_adaptib_endpoints 2"
    "dc_endpoints_btl|dc=1||0||$hca_btl $hca_dc --mca opal_common_adaptib_endpoints 2"
    "dc_loss|dc=1||1000||$hca_dc"
    # Targets that serve fewer initiators at a time than there are
    "dc_limit|dc=1 dc_initiators=2||0||$hca_dc"
    "dc_limit_btl|dc=1 dc_initiators=1||0||$hca_btl $hca_dc"
    "dc_limit_loss|dc=1 dc_initiators=1||1000||$hca_dc"
    # Ports that are full members of one partition and limited ones of the default one
    'pkeys||pkeys=0x7fff,0x8001|0||'
    "pkeys_btl||pkeys=0x7fff,0x8001|0||$hca_btl"
    # All LIDs of all ports carry parts of each message
    "lids_even|||0||$hca_lids even|"
    "lids_bss|||0||$hca_lids bss|"
    "lids_even_btl|||0||$hca_btl $hca_lids even|"
    # Ports report changes of their addresses, partitions and subnet manager
    'events|||0|events||'
    "events_btl|||0|events|$hca_btl|"
    'loss|||1000|||'
    'flap|||0|flap b/v0:1||'
    # Data goes between accelerators' memory and adapters meanwhile
    'flap_device|||0|flap a/v0:1|--mca opal_common_adaptib_accelerator_memory registered|device_messages surviving 12'
    'loss_device|||1000||--mca opal_common_adaptib_accelerator_memory registered|device_messages surviving 2'
    "dc_device|dc=1||0||$hca_dc --mca opal_common_adaptib_accelerator_memory registered|device_messages registered"
    # Threads of several endpoints send meanwhile, over connections and over datagrams only
    'loss_endpoints|||1000||--mca opal_common_adaptib_endpoints 4|threads own 4 200'
    'flap_endpoints|||0|flap b/v0:1|--mca opal_common_adaptib_endpoints 2|threads own 2 1500'
    'flap_endpoints_16|||0|flap b/v0:1|--mca opal_common_adaptib_endpoints 16|threads own 4 500'
    'flap_endpoints_datagrams|||0|flap b/v0:1|--mca opal_common_adaptib_endpoints 2 --mca opal_common_adaptib_channel_policy ud|threads own 2 2000'
    'flap_rma_endpoints|||0|flap b/v0:1|--mca pml ob1 --mca btl adaptib,self --mca osc rdma --mca opal_common_adaptib_endpoints 4|rma_threads 3 200'
)

# hca_fault "SETTINGS|PORT_SETTINGS|LOSS|MEANWHILE|ARGUMENTS|PROGRAM": runs a job of four ranks whose
# data is checked, meanwhile the fault
hca_fault() {
    local settings settings_of_port loss meanwhile arguments program
    local device control=$build_root/release/simulator/adapter/adaptib_hca_control
    local -x ADAPTIB_HCA_TOPOLOGY ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-fault
    IFS='|' read -r settings settings_of_port loss meanwhile arguments program <<<"$1"
    ADAPTIB_HCA_TOPOLOGY=$(hca_topology fault "$settings" "$settings_of_port")
    for device in {a,b,c,d}/v{0,1}:1; do
        "$control" "$device" loss "$loss" || return
    done
    local fault= status
    local -x ADAPTIB_TEST_READY=$logs/hca-fault.ready
    rm -f "$ADAPTIB_TEST_READY"
    if [ -n "$meanwhile" ]; then
        # shellcheck disable=SC2086
        "hca_${meanwhile%% *}" "$control" ${meanwhile#* } 3>"$logs/hca-fault.faults" &
        fault=$!
    fi
    local transport=("${adaptib_mca[@]}")
    [[ $arguments != *"--mca pml "* ]] || transport=()
    read -ra arguments <<<"$arguments"
    read -ra program <<<"${program:-random_traffic 1 200}"
    LD_LIBRARY_PATH=$hca_library:$hca_mlx5 run_mpi 100 4 "${transport[@]}" "${arguments[@]}" \
        "$build_root/release/test/mpi/${program[0]}" "${program[@]:1}"
    status=$?
    [ "$status" != 77 ] || echo "this Open MPI lacks what ${program[0]} needs"
    if [ -n "$fault" ]; then
        [ -s "$logs/hca-fault.faults" ] || [ "$status" = 77 ] ||
            { echo "the job ended before the fault" && status=1; }
        kill "$fault" 2>/dev/null
        wait "$fault" 2>/dev/null
    fi
    rm -f "$ADAPTIB_HCA_FABRIC"
    return "$status"
}

# Drivers over whose devices the conformance suite runs; the others have no rail (unused_drivers)
hca_drivers=(mlx5 mlx4 hfi1 qib bnxt_re irdma rxe hns strict)
hca_all_drivers=(none mlx5 mlx4 hfi1 qib bnxt_re irdma rxe siw efa hns strict)

# hca_conformance DRIVER: the conformance suite over devices of a driver
hca_conformance() {
    local host=a status # with InfiniBand ports
    local -x ADAPTIB_HCA_TOPOLOGY ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-conformance
    ADAPTIB_HCA_TOPOLOGY=$(hca_topology conformance "driver=$1") || return
    ! hca_lacks_infiniband "$1" || host=e
    ADAPTIB_HCA_HOST=$host LD_LIBRARY_PATH=$hca_library timeout 300 \
        "$build_root/release/test/adaptib_conformance_verbs" --gtest_brief=1
    status=$?
    rm -f "$ADAPTIB_HCA_FABRIC"
    return "$status"
}

# hca_rdma_core_tests: prints the directory of rdma-core's tests, which Debian has among the
# documentation of python3-pyverbs. Where documentation is not installed, they come from the package.
hca_rdma_core_tests() {
    local from=/usr/share/doc/rdma-core/tests to=$build_root/hca/rdma-core
    [ ! -f "$to/tests/complete" ] || { printf '%s\n' "$to/tests" && return; }
    rm -rf "$to" && mkdir -p "$to" || return
    if [ ! -d "$from" ]; then
        (cd "$to" && apt-get download python3-pyverbs && dpkg-deb -x python3-pyverbs_*.deb .) >&2 || return
        from=$to$from
    fi
    cp -r "$from" "$to/" && gunzip -rf "$to/tests" && touch "$to/tests/complete" || return
    printf '%s\n' "$to/tests"
}

# hca_rdma_core DRIVER: rdma-core's own tests over a device of a driver (none: without one)
hca_rdma_core() {
    local device=v0 tests status
    local -x ADAPTIB_HCA_TOPOLOGY ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-rdma-core ADAPTIB_HCA_HOST=a
    tests=$(hca_rdma_core_tests) || return
    ADAPTIB_HCA_TOPOLOGY=$(hca_topology "rdma-core-$1" "driver=$1") || return
    ! hca_lacks_infiniband "$1" || { ADAPTIB_HCA_HOST=e && device=r0; }
    rm -f "$ADAPTIB_HCA_FABRIC"
    LD_LIBRARY_PATH=$hca_library timeout 100 "$top/test/hca/rdma_core.py" "$tests" $device "$1"
    status=$?
    rm -f "$ADAPTIB_HCA_FABRIC"
    return "$status"
}

# hca_unused_drivers: adaptib_info says why devices of the other drivers are not used, and the
# conformance suite finds no rail for the same reason
hca_unused_drivers() {
    local driver why
    local -x ADAPTIB_HCA_TOPOLOGY ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-unused
    local -x ADAPTIB_HCA_HOST=e LD_LIBRARY_PATH=$hca_library
    for driver in siw efa; do
        why='r0 speaks iWARP, which has no datagrams'
        [ "$driver" = siw ] || why='r0 speaks neither InfiniBand nor RoCE, so it lacks .* (RC), as EFA'
        ADAPTIB_HCA_TOPOLOGY=$(hca_topology unused "driver=$driver") || return
        "$build_root/release/components/adaptib_info" | grep "PROBLEM  device r0: $why" || return
        "$build_root/release/test/adaptib_conformance_verbs" --gtest_filter='QpStates*:*/QpStates*' \
            >"$logs/hca-unused-conformance" 2>&1
        [ $? = 0 ] && grep "no RDMA device can be used: $why" "$logs/hca-unused-conformance" &&
            grep -q 'PASSED  . 0 tests' "$logs/hca-unused-conformance" || return
        rm -f "$ADAPTIB_HCA_FABRIC"
    done
}

# hca_shortcomings: adaptib_info says what each driver's devices lack, and what that means
hca_shortcomings() {
    local driver host line
    local -x ADAPTIB_HCA_TOPOLOGY ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-shortcomings
    while IFS='|' read -r driver line; do
        host=a
        ! hca_lacks_infiniband "$driver" || host=e
        ADAPTIB_HCA_TOPOLOGY=$(hca_topology shortcomings "driver=$driver") || return
        ADAPTIB_HCA_HOST=$host LD_LIBRARY_PATH=$hca_library \
            "$build_root/release/components/adaptib_info" >"$logs/hca-shortcomings-info"
        rm -f "$ADAPTIB_HCA_FABRIC"
        sed -nE 's/^ *note: (\S+ [^ :]+).*/\1/p' "$logs/hca-shortcomings-info" | sort -u |
            paste -sd, >"$logs/hca-shortcomings-notes"
        [ "$(<"$logs/hca-shortcomings-notes")" = "$line" ] ||
            { echo "$driver: $(<"$logs/hca-shortcomings-notes"), not $line" && return 1; }
    done <<'END'
none|
mlx5|
mlx4|does not
hfi1|does not,no inline
qib|does not,no inline
bnxt_re|does not,no atomics
irdma|does not,no atomics,no shared
rxe|
hns|does not,requests of
strict|256 queue,does not,no atomics,no inline,no shared,requests of
END
}

# Faulty devices that adaptib_selftest has to find and name: name|checks that run (none: all)|device
# settings|port settings|fault of host a's first port|exit status|lines of the report, as extended
# regular expressions with & between them
hca_selftests=(
    'good|||||0|^[1-9][0-9]* passed, 0 failed&ok      path_migration&skipped dynamic_connections&^  nothing$'
    'liar|placement|in_order=1 scrambled_writes=2|||1|FAILED  placement v0:1 -> v0:1(, [0-9]+ times)?: the device places the packets of a write out of order and does not say so&ring_in_order=no'
    'says_so|placement|in_order=0 scrambled_writes=2|||0|note    placement v0:1 -> v0:1: the device says that it places&places_in_order is no, there yes'
    'silent|path||lmc=0| silent|1|FAILED  path v0:1 -> v0:1, path 1 of 1, 2 times: .*silent&no path works at: host1 v0:1'
    'down|limits||| down|0|note    port host1 v0:1: not used: '
    'loss_few|datagrams||| loss 1500|0|note    datagrams v0:1 (->|<-) v[01]:1: [0-9]+ of 8192 datagrams were lost'
    'loss_many|datagrams||| loss 20000|1|FAILED  datagrams v0:1 (->|<-) v[01]:1: [0-9]+ of 8192 datagrams were lost'
    'delay|round_trip||| delay 20000|1|FAILED  round_trip v0:1 -> v0:1: packets are late: half a round trip of 8 bytes takes [0-9.]+ us'
    'delay_path|path||| delay 8000000 2|1|FAILED  path v0:1 (->|<-) v[01]:1, path 3 of 4'
    'no_srq|shared_receives|max_srq=0|||0|note    shared_receives .*no shared receive queues&srq is no, there yes'
    'small|limits,depth|max_sge=2 max_inline=0 max_reads=1 max_qp_wr=200 max_cqe=300 max_qp=30|||0|pieces is 1, there 16&inline_bytes is 0, there 256&reads is 1, there 16&send_depth is 200&queue_pairs is 30'
    'mtu_256|path,placement,datagrams||active_mtu=256||0|datagram_bytes is 256, there 4096'
    'partition|path,datagrams||pkeys=0x8001,0x7fff||0|^[1-9][0-9]* passed, 0 failed'
    'scrambled_order|write_order|scrambled_order=1|||0|note    write_order .*may become visible before one that was posted earlier'
    'split_atomics|atomics|split_atomics=1|||0|note    atomics .*not atomic with the processor'
    'not_reusable|wrong_key|reusable=0|||0|note    wrong_key .*an errored queue pair cannot be used again'
    'dc|dynamic_connections|dc=1|||0|ok      dynamic_connections, 4 times&dc is yes, there no'
    'inline_ignored|limits|inline_ignored=1|||1|FAILED  limits v0:1 -> v0:1'
)
# Of devices of each driver, all checks pass, and the report names the driver.
for driver in "${hca_drivers[@]}"; do
    lines="driver $driver .8 of 8 answers.: host1"
    ! hca_lacks_infiniband "$driver" || lines+='&ok      address_handles.*given up after [0-9]+ ms'
    case $driver in
        strict) lines+='&note    depth .*not the 4063 that the device announces' ;;
        *) lines+='&^  nothing$' ;;
    esac
    hca_selftests+=("driver_$driver||driver=$driver|||0|$lines")
done
unset driver lines

# hca_selftest "CHECKS|SETTINGS|PORT_SETTINGS|FAULT|STATUS|LINES": runs the self-test of the devices
hca_selftest() {
    local checks settings settings_of_port fault status lines line report=$logs/hca-selftest-report got
    local control=$build_root/release/simulator/adapter/adaptib_hca_control
    local -x ADAPTIB_HCA_TOPOLOGY ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-selftest
    IFS='|' read -r checks settings settings_of_port fault status lines <<<"$1"
    ADAPTIB_HCA_TOPOLOGY=$(hca_topology selftest "$settings" "$settings_of_port")
    ! hca_lacks_infiniband "${settings#driver=}" || local -x ADAPTIB_HCA_HOST=e,f@OMPI_COMM_WORLD_RANK
    rm -f "$ADAPTIB_HCA_FABRIC"
    # shellcheck disable=SC2086
    [ -z "$fault" ] || "$control" a/v0:1 $fault || return
    LD_LIBRARY_PATH=$hca_library:$hca_mlx5 timeout 200 "$top/selftest/adaptib_selftest" --quiet \
        --programs "$build_root/release/selftest" --only-devices --checks "$checks" --minutes 4 \
        --report "$report"
    got=$?
    rm -f "$ADAPTIB_HCA_FABRIC"
    cat "$report"
    [ "$got" = "$status" ] || { echo "exit status $got, not $status" && return 1; }
    while IFS= read -r line; do
        grep -qE -e "$line" "$report" || { echo "the report lacks: $line" && return 1; }
    done <<<"${lines//&/$'\n'}"
    # shellcheck disable=SC2154
    if grep -qF -e "$(hostname)" -e "fe80:" "$report"; then
        echo "the report names this host, or an address" && return 1
    fi
}

# Environment in which mpirun reaches several hosts, by a stand-in for ssh
# shellcheck disable=SC2154
hca_hosts=("PATH=$top/test/hca/launcher:$PATH"
    OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_tcp_if_include=lo)

# The two hosts of the next two are one, and the self-test's jobs over TCP use the loopback interface
# between them, by which btl/tcp of Open MPI 6.0.0rc2 reaches nobody.
hca_reaches_itself() { [ "$(ompi_major)" -lt 6 ]; }

# hca_selftest_jobs DOWN UP: the whole self-test of two hosts, with MPI jobs, failover and speed;
# perftest has to resolve the first one's name. DOWN, UP: what happens to a port meanwhile
hca_selftest_jobs() {
    hca_reaches_itself || return 77
    local control=$build_root/release/simulator/adapter/adaptib_hca_control report=$logs/hca-selftest
    local -x ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-selftest status
    rm -f "$ADAPTIB_HCA_FABRIC"
    LD_LIBRARY_PATH=$hca_library timeout 280 env "${hca_hosts[@]}" "$top/selftest/adaptib_selftest" \
        --programs "$build_root/release/selftest" --hosts localhost,selftest-y --minutes 1 \
        --checks path --report "$report.txt" --json "$report.json" \
        --arguments "-x LD_PRELOAD=$hca_library/libadaptib_hca_files.so" \
        --take-down "$control b/v1:1 $1" --bring-up "$control b/v1:1 $2"
    status=$?
    rm -f "$ADAPTIB_HCA_FABRIC"
    cat "$report.txt"
    [ "$status" = 0 ] && grep -q '^  ok      failover: right data' "$report.txt" &&
        grep -q '^  perftest ' "$report.txt" && grep -q '^  adaptib MTL ' "$report.txt" &&
        python3 -c 'import json, sys
report = json.load(open(sys.argv[1]))
sys.exit(report["schema"] != "adaptib-selftest" or report["counts"]["failed"] != 0)' "$report.json"
}

# hca_selftest_hosts: the self-test of two hosts, which mpirun reaches by a stand-in for ssh. Its
# processes are on different hosts, and the report hides the names of both.
hca_selftest_hosts() {
    hca_reaches_itself || return 77
    local report=$logs/hca-selftest-hosts status
    local -x ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-selftest
    local -x ADAPTIB_HCA_HOST=a,b@OMPI_COMM_WORLD_RANK
    rm -f "$ADAPTIB_HCA_FABRIC"
    LD_LIBRARY_PATH=$hca_library timeout 100 env "${hca_hosts[@]}" "$top/selftest/adaptib_selftest" \
        --programs "$build_root/release/selftest" --hosts selftest-x,selftest-y --minutes 1 --quiet \
        --only-devices --checks path,round_trip --report "$report"
    status=$?
    rm -f "$ADAPTIB_HCA_FABRIC"
    cat "$report"
    [ "$status" = 0 ] && grep -qE '^[1-9][0-9]* passed, 0 failed' "$report" &&
        grep -q '^host2: Linux' "$report" &&
        ! grep -qE 'both processes run on one host|selftest-[xy]' "$report"
}

# hca_selftest_refusals: no device, and arguments that are wrong
hca_selftest_refusals() {
    local selftest="$top/selftest/adaptib_selftest" report=$logs/hca-selftest-refusals
    local programs=(--programs "$build_root/release/selftest")
    env -u ADAPTIB_HCA_TOPOLOGY LD_LIBRARY_PATH="$hca_library" "$selftest" "${programs[@]}" --quiet \
        --report "$report"
    [ $? = 1 ] && grep -q 'FAILED  open: .*no RDMA device' "$report" &&
        grep -q 'could not be tested' "$report" || { cat "$report" && return 1; }
    local wrong
    for wrong in "--hosts a" "--hosts a,b,c" "--minutes 0" "--minutes ten" "--take-down true" \
        "--mpirun /no/mpirun" "--programs /no/directory" "--conformance /no/program" "--checks nothing" \
        "--frobnicate"; do
        # shellcheck disable=SC2086
        "$selftest" $wrong >"$report" 2>&1
        [ $? = 2 ] || { echo "not refused: $wrong" && return 1; }
    done
    "$selftest" --help | grep -q -- --take-down
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

# hca_migration ARGUMENTS: where packets to one LID of a port vanish, the adapters have to move queue
# pairs to their alternate paths
hca_migration() {
    local job=$logs/hca-migration-job status
    hca_fault "||0|vanish b/v0:1|$1 --mca opal_common_adaptib_answer_timeout 20 --mca opal_common_adaptib_report ranks|random_traffic 1 400" \
        >"$job" 2>&1
    status=$?
    cat "$job"
    [ "$status" = 0 ] && grep -q 'migrations [1-9]' "$job"
}

# hca_address_change SECONDS ARGUMENTS [ROUNDS]: a port gets another LID each time after so many
# seconds, and packets to the old one vanish. The port's process has to see it, nothing is lost, and no
# queue pair goes on to the old one until its last retry.
hca_address_change() {
    local job=$logs/hca-address-change-job status
    hca_fault "||0|new_lid b/v0:1 $1|$2|random_traffic 1 ${3:-120}" >"$job" 2>&1
    status=$?
    cat "$job"
    [ "$status" = 0 ] && grep -q 'rail .*/v0:1 down: its address has changed' "$job" &&
        ! grep -q 'retry counter exceeded' "$job"
}

# hca_vlan: ports whose first addresses are in different VLANs; gid_index chooses those in none
hca_vlan() {
    local index
    local -x ADAPTIB_HCA_HOST=g
    index=$(LD_LIBRARY_PATH=$hca_library "$build_root/release/components/adaptib_info" |
        sed -nE 's/.* ([0-9]+) RoCE v2 ::ffff:10\.0\.0\.3.*/\1/p')
    ADAPTIB_HCA_HOST=g,h@OMPI_COMM_WORLD_RANK
    LD_LIBRARY_PATH=$hca_library run_mpi 60 2 "${adaptib_mca[@]}" \
        --mca opal_common_adaptib_gid_index "$index" "$build_root/release/test/mpi/random_traffic" 1 50
}

# hca_standby: a rail that stands by carries nothing while the other one is well, and goes on alone
# when that one fails
hca_standby() {
    local reports=$logs/hca-standby standby='--mca opal_common_adaptib_if_standby v1'
    rm -rf "$reports" && mkdir "$reports" || return
    hca_fault "||0||$standby --mca opal_common_adaptib_report $reports" || return
    hca_carried "$reports" 1 none || return
    hca_incidents "$reports" none || return
    rm -f "$reports"/*
    hca_fault "||0|flap b/v0:1|$standby --mca opal_common_adaptib_report $reports" || return
    hca_carried "$reports" 1 some && hca_incidents "$reports" "rail down" "rail up" repaired \
        "standby in use" "standby at rest"
}

# hca_incidents REPORTS none|KIND...: checks that the histories of all processes have incidents of
# each kind, or none at all
hca_incidents() {
    python3 - "$@" <<'END'
import collections, glob, json, sys
kinds = collections.Counter(incident["kind"] for path in glob.glob(sys.argv[1] + "/*.json")
                            for history in json.load(open(path))["history"]
                            for incident in history["incidents"])
print(f"incidents: {dict(kinds)}")
sys.exit(bool(kinds) if sys.argv[2] == "none" else any(not kinds[kind] for kind in sys.argv[2:]))
END
}

# hca_carried REPORTS RAIL none|some: checks what the rail of that number carried in all processes
hca_carried() {
    python3 - "$@" <<'END'
import glob, json, sys
carried = [json.load(open(path))["counters"][f"rail_bytes_{rail}"]["value"]
           for rail in (0, int(sys.argv[2])) for path in sorted(glob.glob(sys.argv[1] + "/*.json"))]
first, other = carried[:len(carried) // 2], carried[len(carried) // 2:]
print(f"bytes of rail 0: {first}, of rail {sys.argv[2]}: {other}")
sys.exit(not (sum(first) > 0 and (sum(other) > 0) == (sys.argv[3] == "some")))
END
}

# hca_routed RATE: makes a topology file of four hosts of a fat tree with OpenSM's routes, two on
# each of two leaves, whose links carry so many megabytes a second, and prints its name
hca_routed() {
    local file=$logs/hca-routed stored=$top/simulator/torture/routes/fat_tree_12x12x12
    xz -dc "$stored.topology.xz" >"$file.network" && xz -dc "${stored}_lmc2_compact.lfts.xz" >"$file.lfts" &&
        "$build_root/release/simulator/adapter/adaptib_hca_routes" --rate "$1" "$file.network" "$file.lfts" \
            H000 H001 H012 H013 >"$file.topology" && printf '%s\n' "$file.topology"
}

# hca_slow_link: one of the four ways between two hosts passes a link that is ten times slower than
# all others. Even parts take it for a quarter of the bytes, the default has to learn better.
hca_slow_link() {
    local control=$build_root/release/simulator/adapter/adaptib_hca_control policy shares=()
    local -x ADAPTIB_HCA_TOPOLOGY ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-routed
    local -x ADAPTIB_HCA_HOST=H000,H012@OMPI_COMM_WORLD_RANK
    ADAPTIB_HCA_TOPOLOGY=$(hca_routed 200) && sed -i 's/link leaf0.14 .*/link leaf0.14 rate=20/' \
        "$ADAPTIB_HCA_TOPOLOGY" || return
    for policy in even ""; do
        rm -f "$ADAPTIB_HCA_FABRIC"
        # shellcheck disable=SC2154
        LD_LIBRARY_PATH=$hca_library:$hca_mlx5 run_mpi 100 2 "${adaptib_mca[@]}" \
            ${policy:+--mca opal_common_adaptib_striping_policy "$policy"} \
            "$build_root/release/test/mpi/pingpong" 4194304 || return
        shares+=("$("$control" links | awk '/^leaf0.1[3-6] / { all += $3 } /^leaf0.14 / { slow = $3 }
            END { printf "%d", 100 * slow / all }')")
    done
    rm -f "$ADAPTIB_HCA_FABRIC"
    echo "percent of the bytes over the slow link: even ${shares[0]}, default ${shares[1]}"
    [ "${shares[0]}" -ge 20 ] && [ "${shares[1]}" -le 10 ]
}

# hca_link_down TRANSPORT: a link between switches fails now and then, and with it one way of four
# between the leaves; ports and devices notice nothing
hca_link_down() {
    local control=$build_root/release/simulator/adapter/adaptib_hca_control fault status
    local job=$logs/hca-link-down-job
    local -x ADAPTIB_HCA_TOPOLOGY ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-routed
    local -x ADAPTIB_HCA_HOST=H000,H001,H012,H013@OMPI_COMM_WORLD_RANK
    ADAPTIB_HCA_TOPOLOGY=$(hca_routed 4000) || return
    rm -f "$ADAPTIB_HCA_FABRIC"
    while sleep 0.8; do
        "$control" link leaf0.14 down && sleep 1.2 && "$control" link leaf0.14 up || break
    done &
    fault=$!
    # shellcheck disable=SC2086
    LD_LIBRARY_PATH=$hca_library:$hca_mlx5 run_mpi 100 4 $1 \
        --mca opal_common_adaptib_answer_timeout 14 --mca opal_common_adaptib_report ranks \
        "$build_root/release/test/mpi/random_traffic" 1 300 >"$job" 2>&1
    status=$?
    kill "$fault"
    wait "$fault" 2>/dev/null
    rm -f "$ADAPTIB_HCA_FABRIC"
    cat "$job"
    [ "$status" = 0 ] && grep -qE 'migrations [1-9]|repairs [1-9]' "$job"
}

# hca_flap CONTROL PORT: takes the port down and up, several times, since a job may begin late;
# writes a line to descriptor 3 each time
hca_flap() {
    local count
    sleep 0.8 # until the job runs
    for count in {1..8}; do
        "$1" "$2" down && echo down >&3 && sleep 0.7 && "$1" "$2" up && sleep 0.5 || return
    done
}

# hca_remove CONTROL PORT: the port's device is removed, and comes back
hca_remove() {
    sleep 0.8 # until the job runs
    "$1" "$2" remove && echo removed >&3 && sleep 2 && "$1" "$2" return
}

# hca_reset CONTROL PORT...: the ports' devices are removed and come back, one after the other
hca_reset() {
    local port
    sleep 2 # until the job runs
    for port in "${@:2}"; do
        "$1" "$port" remove && echo removed >&3 && sleep 1 && "$1" "$port" return && sleep 3 || return
    done
}

# hca_lose_arp CONTROL PORT: the first answers of the ports to ARP get lost
hca_lose_arp() { "$1" "$2" lose_arp 3 && echo lost >&3; }

# hca_mac CONTROL PORT [SECONDS]: the port gets other MAC addresses, each after so many seconds, as from a
# bond that fails over
hca_mac() {
    local count
    sleep 0.8 # until the job runs
    for count in {1..5}; do
        "$1" "$2" mac && echo mac >&3 && sleep "${3:-2}" || return
    done
}

# hca_dead CONTROL PORT...: the ports' hosts fall silent once pauses knows the rate, and answer no ARP
hca_dead() {
    local port
    until [ -e "$ADAPTIB_TEST_READY" ]; do
        sleep 0.05
    done
    for port in "${@:2}"; do
        "$1" "$port" silent && "$1" "$port" silent_arp && echo dead >&3 || return
    done
    sleep 7
    for port in "${@:2}"; do
        "$1" "$port" up || return
    done
}

# hca_vanish CONTROL PORT: packets to the port's first LID vanish now and then
hca_vanish() {
    while sleep 0.6; do
        "$1" "$2" delay 600000000 0 && echo gone >&3 && sleep 1.5 && "$1" "$2" delay 0 0 || return
    done
}

# hca_new_lid CONTROL PORT SECONDS: the port's lowest LID changes, each time after so many seconds, to
# one that no port has had
hca_new_lid() {
    local lid
    sleep 0.8 # until the job runs
    for lid in {40..120..4}; do
        "$1" "$2" lid "$lid" && echo "$lid" >&3 && sleep "$3" || return
    done
}

# hca_events CONTROL: ports report changes of their addresses, partitions and subnet manager
hca_events() {
    local event
    sleep 0.6
    while :; do
        for event in lid gid pkey sm reregister; do
            "$1" a/v0:1 event "$event" && "$1" c/v1:1 event "$event" && echo "$event" >&3 &&
                sleep 0.1 || return
        done
    done
}

# hca_fault_program SEED: a random fault program. A job of four ranks whose data is checked runs
# while ports go down and up, devices fall silent, packets are late or lost, as the seed says. At any
# time the devices of one name (v0 or v1) are without a fault but for loss, so that every two hosts
# have a way. The seed also gives the devices' limits, and the numbers of endpoints and of rounds. The log names the faults.
hca_fault_program() {
    local control=$build_root/release/simulator/adapter/adaptib_hca_control
    local seed=$1 faults status settings rounds
    local -x ADAPTIB_HCA_TOPOLOGY
    local -x ADAPTIB_HCA_FABRIC=$ADAPTIB_HCA_FABRIC-program-$1
    local -a choices=('' 'max_inline=0' 'max_sge=2 max_reads=1' 'max_srq=0'
        'scrambled_order=1' 'in_order=0 scrambled_writes=1' 'in_order=0 scrambled_writes=2')
    RANDOM=$seed
    settings=${choices[RANDOM % ${#choices[@]}]}
    # Soft-RoCE is a program that places what comes in order (Linux: sw/rxe/rxe_resp.c).
    [[ ${ADAPTIB_HCA_DRIVER:-} != rxe || $settings != in_order=0* ]] || settings=
    local -x OMPI_MCA_opal_common_adaptib_endpoints=$((1 << RANDOM % 3))
    rounds=$((50 << RANDOM % 4))
    printf 'seed %s: %s, %s endpoints, %s rounds\n' "$seed" "${settings:-usual devices}" \
        "$OMPI_MCA_opal_common_adaptib_endpoints" "$rounds"
    ADAPTIB_HCA_TOPOLOGY=$(hca_topology "program-$seed" "$settings")
    rm -f "$ADAPTIB_HCA_FABRIC"
    hca_random_faults "$control" "$seed" &
    faults=$!
    LD_LIBRARY_PATH=$hca_library run_mpi 400 4 "${adaptib_mca[@]}" \
        "$build_root/release/test/mpi/random_traffic" "$seed" "$rounds"
    status=$?
    kill "$faults" 2>/dev/null
    wait "$faults" 2>/dev/null
    rm -f "$ADAPTIB_HCA_FABRIC" "$ADAPTIB_HCA_TOPOLOGY"
    return "$status"
}

# hca_random_faults CONTROL SEED: rounds of faults, until it is killed
hca_random_faults() {
    local round host device kind
    local -a kinds=(down down silent delay)
    RANDOM=$(($2 + 1))
    sleep 0.$((RANDOM % 9 + 1))
    for ((round = 0; round < 40; ++round)); do
        device=v$((RANDOM % 2)):1
        hca_fault_step "$1" {a,b,c,d}/v{0,1}:1 loss $((RANDOM % 3 * 300))
        for host in a b c d; do
            kind=${kinds[RANDOM % 4]}
            # Late packets of one path, or of all.
            [ "$kind" != delay ] || kind="delay $((RANDOM * 2)) $((RANDOM % 4))"
            [ $((RANDOM % 8)) != 0 ] || kind="delay $((RANDOM % 3000))"
            # shellcheck disable=SC2086
            [ $((RANDOM % 2)) = 0 ] || hca_fault_step "$1" "$host/$device" $kind
        done
        sleep 0.$((RANDOM % 9 + 1))
        hca_fault_step "$1" {a,b,c,d}/"$device" up
        hca_fault_step "$1" {a,b,c,d}/"$device" delay 0
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

# hca_ucx TEST: a test of UCX between two hosts, over reliable connections and datagrams. Without a
# terminal, Debian 13's ucx_perftest is a program of MPI.
hca_ucx() {
    # That of Debian's sid (1.23) is built without libibverbs.
    ! ucx_info -b | grep -qE 'HAVE_DECL_IBV_CREATE_SRQ +0' || return 77
    local -x LD_LIBRARY_PATH=$hca_library UCX_NET_DEVICES=v0:1 UCX_TLS=rc_verbs,ud_verbs,self server
    local -x LD_PRELOAD=$hca_library/libadaptib_hca_files.so
    ADAPTIB_HCA_HOST=a script -qec "timeout 60 ucx_perftest -p 18790" /dev/null &
    server=$!
    for _ in {1..50}; do
        grep -qi ':4966 .* 0A ' /proc/net/tcp /proc/net/tcp6 && break # it listens to port 18790
        sleep 0.2
    done
    ADAPTIB_HCA_HOST=b script -qec \
        "timeout 60 ucx_perftest localhost -p 18790 -t $1 -n 1000 -s 40000" /dev/null || return
    wait "$server"
}
