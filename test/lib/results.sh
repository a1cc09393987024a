# SPDX-License-Identifier: BSD-3-Clause
#
# Results of tests: prints a line for each test when it ends, and a summary at the end. Sourced by
# test/run.

passed=0
failed=0
skipped=0
failures=()

# result ok|FAILED|skipped PART NAME SECONDS [LOG]
result() {
    local outcome=$1 part=$2 name=$3 seconds=$4 log=${5:-}
    printf '%-8s %-8s %-72s %6s s\n' "$outcome" "$part" "$name" "$seconds"
    case $outcome in
        ok) passed=$((passed + 1)) ;;
        skipped) skipped=$((skipped + 1)) ;;
        *)
            failed=$((failed + 1))
            failures+=("$part $name${log:+    log: $log}")
            ;;
    esac
}

# run_test PART NAME COMMAND...: runs a test; exit status 0 is ok, 77 skipped, anything else FAILED
run_test() {
    local part=$1 name=$2 log start=$EPOCHREALTIME status seconds
    shift 2
    log=$logs/$part-${name//[^A-Za-z0-9_.-]/_}.log
    "$@" >"$log" 2>&1 </dev/null
    status=$?
    seconds=$(elapsed "$start")
    case $status in
        0) result ok "$part" "$name" "$seconds" ;;
        77)
            result skipped "$part" "$name" "$seconds"
            tail -n 1 "$log" | sed 's/^/    /'
            ;;
        *)
            result FAILED "$part" "$name" "$seconds" "$log"
            case $status in
                124 | 137) say "    took too long and was ended" ;;
                *) say "    exit status $status" ;;
            esac
            tail -n 15 "$log" | sed 's/^/    /'
            ;;
    esac
}

# results_aside FILE COMMAND...: runs the command, which calls result, in a process of its own;
# results_take FILE, in the first process, adds its results.
results_aside() {
    local file=$1.results
    shift
    passed=0 failed=0 skipped=0 failures=()
    "$@"
    printf '%s\n' "passed=\$((passed + $passed)) failed=\$((failed + $failed)) skipped=\$((skipped + $skipped))" \
        "failures+=(${failures[*]@Q})" >"$file"
}
results_take() {
    # shellcheck disable=SC1090
    . "$1.results" && rm "$1.results" || result FAILED "(results)" "${1##*/}" 0 "$1"
}

# in_shares BASE COMMAND ITEM...: handles the items in as many processes at a time as there are
# processors. Each process calls COMMAND BASE.N.log ITEM... with its share; there are more shares than
# processors, so that one with slow items leaves no processor idle for long.
in_shares() {
    local base=$1 command=$2 items share shares i running=0
    shift 2
    items=("$@")
    shares=$((8 * jobs < ${#items[@]} ? 8 * jobs : ${#items[@]}))
    for ((share = 0; share < shares; ++share)); do
        local mine=()
        for ((i = share; i < ${#items[@]}; i += shares)); do
            mine+=("${items[i]}")
        done
        if [ "$running" -ge "$jobs" ]; then
            wait -n
            running=$((running - 1))
        fi
        results_aside "$base.$share.log" "$command" "$base.$share.log" "${mine[@]}" &
        running=$((running + 1))
    done
    wait
    for ((share = 0; share < shares; ++share)); do
        results_take "$base.$share.log"
    done
}

# elapsed START: prints the seconds since $EPOCHREALTIME was START, with one decimal
elapsed() {
    local microseconds=$((${EPOCHREALTIME/./} - ${1/./}))
    printf '%d.%d' $((microseconds / 1000000)) $((microseconds / 100000 % 10))
}

# results_end: prints the summary; fails if any test failed
results_end() {
    local failure
    if [ "$failed" -gt 0 ]; then
        say
        say "Failed; each with the command that repeats it:"
        for failure in "${failures[@]}"; do
            say "    test/run $failure"
        done
    fi
    say
    say "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
