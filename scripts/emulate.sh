#!/usr/bin/env bash
# Runs an x86-64 Linux program on an emulated processor with AVX-512, for machines whose own has none.
#
#   scripts/emulate.sh [OPTIONS] PROGRAM [ARGUMENT...]
#   scripts/emulate.sh --prepare
#
# Prints what PROGRAM prints (standard output and error in one) and exits with its status; 125 if the emulator failed
# or the time was up. PROGRAM may be static, or dynamic with libraries that ldd finds. Inside, its path, the current
# directory and every --data DIR are the same as outside, nothing else of this machine is there, and what it writes
# is lost. There is one processor; on a 2021 server core it boots in 15 s and then runs some 180 million integer
# instructions a second, or 25 million multiply-adds of floats: keep tests small, run many in one PROGRAM.
#
#   --data DIR        a folder or file that PROGRAM reads; may be repeated
#   --env NAME=VALUE  sets a variable for PROGRAM, which inherits none; may be repeated
#   --cpu MODEL       sapphire_rapids (default: AVX-512 F, CD, DQ, BW, VL, VNNI, BF16), corei7_icelake_u (no BF16),
#                     corei7_skylake_x (no VNNI), corei7_haswell_4770 (AVX2 and FMA), or another Bochs model
#   --memory MIB      of the emulated machine, 128 to 2048 (default 1024)
#   --timeout SECONDS after which it is stopped (default 1800)
#   --verbose         the kernel's and the emulator's messages and the time taken, on standard error
#   --prepare         only builds what the other runs need, in build/emulator (minutes, once)
#
# It is Bochs 3 that boots a Debian kernel with PROGRAM in its initial file system. Bochs is built from Debian 13's
# source package, as Debian's binary is built with a debugger that makes it many times slower, and Debian 12's 2.7
# gets the layout of saved AVX-512 registers wrong. Bochs's BIOS, the kernel, isolinux and busybox are unpacked from
# Debian 13's packages without being installed, so their versions are the same on any Debian.
# Needs Debian's apt sources and the packages g++ make xz-utils genisoimage (installed if that is possible).
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

readonly suite=trixie
readonly emulator_packages=(bochsbios vgabios isolinux syslinux-common busybox-static)
readonly cache=$repo_root/build/emulator
readonly exit_emulator=125

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit "$exit_emulator"
}

# logged COMMAND...: output goes to $cache/log, whose end is shown if it fails.
logged() {
    "$@" >"$cache/log" 2>&1 </dev/null || {
        tail -n 20 -- "$cache/log" >&2
        fail "failed: $*"
    }
}

# Writes $cache/apt: an apt configuration of its own that sees only Debian $suite, from this machine's Debian mirror.
configure_apt() {
    local mirror
    command -v apt-get >/dev/null || die "fetches Debian packages, and there is no apt here"
    # shellcheck disable=SC2016  # apt's own variables
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Origin: Debian' 'Created-By: Packages' |
        awk '$2 == "main" && $1 !~ /security/ { print $1; exit }')
    [[ -n $mirror ]] || die "found no Debian mirror among the sources of apt (on Debian, run apt-get update first)"
    mkdir -p -- "$cache"/apt/{lists,archives}/partial
    mirror="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
    printf '%s\n' "deb $mirror" "deb-src $mirror" >"$cache/apt/sources.list"
    cat >"$cache/apt/apt.conf" <<CONF
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Sandbox::User "$(id -un)";
Dir::State "$cache/apt";
Dir::State::lists "$cache/apt/lists";
Dir::State::status "/dev/null";
Dir::Cache "$cache/apt";
Dir::Etc::sourcelist "$cache/apt/sources.list";
Dir::Etc::sourceparts "-";
CONF
    export APT_CONFIG=$cache/apt/apt.conf
    logged apt-get update -q
}

# Unpacks the packages into $cache/root, and the kernel that linux-image-cloud-amd64 stands for into $cache/vmlinuz.
fetch_packages() {
    local kernel deb
    kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')
    mkdir -- "$cache/debs" "$cache/root"
    cd -- "$cache/debs"
    logged apt-get download -q "${emulator_packages[@]}" "$kernel"
    for deb in ./*.deb; do
        # Of the kernel's package only the kernel: its modules are large.
        if [[ $deb == ./linux-image-* ]]; then
            dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$cache/root" --wildcards './boot/vmlinuz-*'
        else
            dpkg-deb --extract "$deb" "$cache/root"
        fi
    done
    mv -- "$cache"/root/boot/vmlinuz-* "$cache/vmlinuz"
}

# Builds $cache/bochs: no debugger, no display, every shortcut that makes it fast.
build_bochs() {
    mkdir -- "$cache/source"
    cd -- "$cache/source"
    logged apt-get source -q --tar-only --download-only bochs
    tar -x --strip-components=1 -f bochs_*.orig.tar.xz
    # Bochs 3.0 converts what lies beyond the first operand of vcvtne2ps2bf16, not that operand.
    sed -i '/::VCVTNE2PS2BF16/,/^}/s/op1\.vmm32u(n)/op1.vmm32u(n - DWORD_ELEMENTS(len))/' cpu/avx/avx512_bf16.cc
    grep -qF 'op1.vmm32u(n - DWORD_ELEMENTS(len))' cpu/avx/avx512_bf16.cc || fail "this is not the source of Bochs 3.0"
    logged env CXXFLAGS='-O2 -fomit-frame-pointer -pipe' ./configure --with-nogui --disable-docbook \
        --enable-cpu-level=6 --enable-x86-64 --enable-avx --enable-evex --enable-fpu --enable-pci --enable-cdrom \
        --enable-all-optimizations --enable-repeat-speedups --enable-fast-function-calls --enable-handlers-chaining
    logged make -j "$(nproc)"
    strip -o "$cache/bochs" bochs
}

prepare() {
    # The stamp is written last, and names what is inside.
    local stamp="$suite ${emulator_packages[*]} 2"
    [[ ! -f $cache/complete || $(<"$cache/complete") != "$stamp" ]] || return 0
    [[ $(uname -m) == x86_64 ]] || die "is for x86-64 machines"
    # One builds, others that start meanwhile wait for it.
    mkdir -p -- "${cache%/*}"
    exec {lock}>"$cache.lock"
    flock "$lock"
    [[ ! -f $cache/complete || $(<"$cache/complete") != "$stamp" ]] || return 0
    install_packages g++ make xz-utils genisoimage >&2
    rm -rf -- "$cache"
    mkdir -p -- "$cache"
    say "Building the emulator in build/emulator (once, some minutes)" >&2
    # In a subshell for its directory changes; not joined by &&, which would switch off errexit inside.
    (
        configure_apt
        fetch_packages
        build_bochs
    )
    rm -rf -- "$cache"/{apt,debs,source,log}
    say "$stamp" >"$cache/complete"
    exec {lock}>&-
}

# quoted WORD...: for a POSIX shell.
quoted() {
    local word
    for word in "$@"; do printf " '%s'" "${word//\'/\'\\\'\'}"; done
}

# copy_in PATH...: into the initial file system, under the same path.
copy_in() {
    local path
    for path in "$@"; do
        mkdir -p -- "$work/files$(dirname -- "$path")"
        cp -rL -- "$path" "$work/files$(dirname -- "$path")/"
    done
}

# The program's shared libraries and loader; none for a static one.
libraries_of() {
    ldd "$1" 2>/dev/null | awk '/not found/ { exit } $2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }'
}

# write_init COMMAND...: the first process. The program has the second serial port to itself, the status and the
# kernel's messages go to the first. Rebooting is by a triple fault, at which the emulator ends.
write_init() {
    local setting
    {
        cat <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox stty -F /dev/ttyS0 115200 raw -echo
/bin/busybox stty -F /dev/ttyS1 115200 raw -echo
INIT
        for setting in "${variables[@]}"; do say "export$(quoted "$setting")"; done
        say "cd$(quoted "$PWD")"
        say "($(quoted "$@") ) </dev/null >/dev/ttyS1 2>&1"
        cat <<'INIT'
echo "emulated program exited: $?, uptime $(/bin/busybox cat /proc/uptime)" >/dev/ttyS0
/bin/busybox reboot -f
INIT
    } >"$work/files/init"
    chmod +x -- "$work/files/init"
}

# Writes the CD that the emulated machine starts from, and the emulator's configuration.
write_machine() {
    local root=$cache/root syslinux
    syslinux=$root/usr/lib/syslinux/modules/bios
    mkdir -p -- "$work/cd"
    cp -- "$cache/vmlinuz" "$root/usr/lib/ISOLINUX/isolinux.bin" "$syslinux/ldlinux.c32" "$work/cd/"
    (cd -- "$work/files" && find . | "$cache/root/usr/bin/busybox" cpio -o -H newc 2>/dev/null) >"$work/cd/initrd"
    # No ACPI: turning it on makes the emulator stop. No PCI, APIC or other processors: they cost time.
    local options=(initrd=initrd console=ttyS0 mitigations=off nokaslr nosmp acpi=off pci=off noapic nolapic nohpet
        lsm= random.trust_cpu=on panic=-1 reboot=t)
    [[ $verbose == yes ]] || options+=(quiet)
    printf '%s\n' 'default linux' 'prompt 0' 'label linux' 'kernel vmlinuz' "append ${options[*]}" \
        >"$work/cd/isolinux.cfg"
    genisoimage -quiet -o "$work/cd.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table \
        "$work/cd"
    cat >"$work/bochsrc" <<CONF
config_interface: textconfig
display_library: nogui
cpu: model=$cpu, count=1, ips=100000000, reset_on_triple_fault=0
memory: guest=$memory, host=$memory
romimage: file=$root/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=$root/usr/share/vgabios/vgabios.bin
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$work/cd.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/console
com2: enabled=1, mode=file, dev=$work/output
speaker: enabled=0
log: $work/bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
CONF
}

# Runs the machine, showing the program's output as it comes; sets `status` to the program's.
run_machine() {
    local started=$SECONDS bochs tail
    : >"$work/output" && : >"$work/console"
    timeout "$time_limit" "$cache/bochs" -q -f "$work/bochsrc" >"$work/bochs.out" 2>&1 </dev/null &
    bochs=$!
    tail -c +1 -f -s 0.2 --pid="$bochs" -- "$work/output" &
    tail=$!
    wait "$bochs" || true
    wait "$tail"
    status=$(tr -d '\r' <"$work/console" | sed -n 's/^emulated program exited: \([0-9]*\),.*/\1/p' | tail -n 1)
    [[ $verbose == no ]] || {
        cat -- "$work/console" "$work/bochs.log"
        say "took $((SECONDS - started)) s"
    } >&2
}

# The emulator may still be running when the script is interrupted.
clean_up() {
    local running
    mapfile -t running < <(jobs -p)
    [[ ${#running[@]} -eq 0 ]] || kill "${running[@]}" 2>/dev/null || true
    rm -rf -- "$work"
}

cpu=sapphire_rapids memory=1024 time_limit=1800 verbose=no data=() variables=()
while [[ ${1:-} == -* ]]; do
    case $1 in
        --help) usage; exit 0 ;;
        --prepare) prepare; exit 0 ;;
        --verbose) verbose=yes; shift; continue ;;
    esac
    need_value "$@"
    case $1 in
        --data) data+=("$(realpath -s -- "$2")"); [[ -e $2 ]] || die "no such folder: $2" ;;
        --env) [[ $2 == [A-Za-z_]*=* ]] || die "--env takes NAME=VALUE, not '$2'"; variables+=("$2") ;;
        --cpu) [[ $2 =~ ^[a-z0-9_]+$ ]] || die "no processor model: '$2'"; cpu=$2 ;;
        --memory) positive_integer "$@"; memory=$2 ;;
        --timeout) positive_integer "$@"; time_limit=$2 ;;
        *) die "unknown option $1; see --help" ;;
    esac
    shift 2
done
[[ $# -ge 1 ]] || die "no program given; see --help"
[[ -f $1 && -x $1 ]] || die "not a program: $1"
program=$(realpath -s -- "$1")
shift
prepare
command -v genisoimage >/dev/null || install_packages genisoimage >&2

work=$(mktemp -d)
trap clean_up EXIT
mkdir -p -- "$work"/files/{bin,dev,proc,sys,tmp} "$work/files$PWD"
cp -- "$cache/root/usr/bin/busybox" "$work/files/bin/busybox"
mapfile -t libraries < <(libraries_of "$program")
copy_in "$program" "${libraries[@]}" "${data[@]}"
write_init "$program" "$@"
write_machine
run_machine
[[ -n $status ]] || {
    tail -n 5 -- "$work/console" "$work/bochs.log" >&2
    fail "the emulator stopped before the program ended (--timeout is $time_limit s); --verbose says more"
}
exit "$status"
