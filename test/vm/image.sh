# SPDX-License-Identifier: BSD-3-Clause
#
# Kernel and initramfs of the virtual machine, made once and kept below build/vm. Sourced by bash
# after test/lib/common.sh.
#
# The kernel is Debian's stock one, downloaded and unpacked there; this system's boot does not
# change. Remove build/vm to get Debian's current kernel.

vm_dir=$build_root/vm
vm_kernel=$vm_dir/kernel/vmlinux
vm_initramfs=$vm_dir/initramfs

# Modules in loading order; their dependencies are added. rxe needs crc32_generic without declaring
# it. crc32-pclmul would be slow under emulation.
vm_modules='virtio_pci 9pnet_virtio 9p overlay
    virtio_net veth ib_uverbs rdma_ucm ib_umad crc32_generic rdma_rxe
    sch_netem sch_tbf'

# vm_image: makes kernel and initramfs if they are missing or older than their sources
vm_image() {
    [ "$(dpkg --print-architecture)" = amd64 ] || die "the virtual machine runs amd64 only"
    mkdir -p "$vm_dir" || exit 1
    (
        flock 9 && vm_get_kernel && vm_make_initramfs
    ) 9>"$vm_dir/lock" || die "there is no virtual machine to run"
}

vm_get_kernel() {
    [ ! -f "$vm_kernel" ] || return 0
    local dir=$vm_dir/kernel.new package root=() version
    package=$(vm_kernel_package)
    if [ -z "$package" ]; then
        [ "$(id -u)" = 0 ] || root=(sudo)
        "${root[@]}" apt-get update >"$logs/apt.log" 2>&1
        package=$(vm_kernel_package)
    fi
    [ -n "$package" ] || { say "apt knows no kernel for linux-image-amd64" >&2; return 1; }
    say "vm: downloading $package" >&2
    rm -rf "$dir" "$vm_dir/kernel"
    mkdir "$dir" && cd "$dir" || return 1
    if ! apt-get download "$package" >"$logs/apt.log" 2>&1; then
        tail -n 20 "$logs/apt.log" >&2
        return 1
    fi
    dpkg -x "$package"_*.deb . && rm "$package"_*.deb || return 1
    # Debian 13's package has its modules in usr/lib; depmod and modprobe look in lib.
    [ -e lib ] || ln -s usr/lib lib || return 1
    version=${package#linux-image-}
    PATH=$PATH:/sbin:/usr/sbin depmod -b . "$version" && vm_unpack "boot/vmlinuz-$version" >vmlinux &&
        say "$version" >version && cd "$vm_dir" && mv "$dir" kernel
}

# vm_unpack FILE: prints the kernel proper of a bzImage (the kernel's
# Documentation/arch/x86/boot.rst describes its place); an emulated processor would need seconds to
# unpack it. Debian 12 compresses it by xz, Debian 13 by zstd. The compressed data end with 4 bytes
# that belong to neither format, the kernel's own size.
vm_unpack() {
    local setup offset length unpack=zstd
    setup=$(od -An -tu1 -j 0x1f1 -N 1 "$1")
    offset=$(od -An -tu4 -j 0x248 -N 4 "$1")
    length=$(od -An -tu4 -j 0x24c -N 4 "$1")
    offset=$(((setup + 1) * 512 + offset))
    [ "$(od -An -tx1 -j $offset -N 4 "$1")" != " fd 37 7a 58" ] || unpack=xz
    tail -c +$((offset + 1)) "$1" | head -c $((length - 4)) | $unpack -dc
}

# Prints the package that linux-image-amd64 depends on.
vm_kernel_package() {
    apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: *\(linux-image-[^ ]*\)$/\1/p' |
        head -n 1
}

vm_make_initramfs() {
    local here=$top/test/vm dir=$vm_dir/initramfs.files version file module
    if [ "$vm_initramfs" -nt "$here/guest-init" ] && [ "$vm_initramfs" -nt "$here/image.sh" ] &&
        [ "$vm_initramfs" -nt "$vm_kernel" ]; then
        return 0
    fi
    version=$(cat "$vm_dir/kernel/version")
    rm -rf "$dir"
    mkdir -p "$dir"/{bin,modules,proc,sys,dev,host,changes,root} || return 1
    cp /bin/busybox "$dir/bin/" && ln -s busybox "$dir/bin/sh" && cp "$here/guest-init" "$dir/init" ||
        return 1
    for module in $vm_modules; do
        PATH=$PATH:/sbin:/usr/sbin modprobe -C /dev/null -d "$vm_dir/kernel" -S "$version" \
            --show-depends "$module" || return 1
    done >"$dir/depends"
    awk '$1 == "insmod" && !seen[$2]++ { print $2 }' "$dir/depends" >"$dir/order"
    while read -r file; do
        module=${file##*/} && module=${module%.xz}
        case $file in
            *.xz) xz -dc "$file" >"$dir/modules/$module" ;;
            *) cp "$file" "$dir/modules/" ;;
        esac || return 1
        say "$module"
    done <"$dir/order" >"$dir/modules/order" || return 1
    rm "$dir/depends" "$dir/order"
    (cd "$dir" && find . | cpio --quiet -o -H newc) >"$vm_initramfs.new" &&
        mv "$vm_initramfs.new" "$vm_initramfs" && rm -rf "$dir"
}
