#!/usr/bin/env bash
# Fills build/arm64-sysroot with the arm64 libraries and headers that the aarch64 preset is built with.
#
# They are the distribution's own packages, fetched by apt with lists of its own under build/ and unpacked there:
# installing them would need a second architecture on the machine and would replace its own development packages.
set -euo pipefail
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

[[ ${1:-} != --help ]] || { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0; }
[[ $# -eq 0 ]] || die "takes no arguments"

packages=(libtbb-dev libtbb12 libtbbmalloc2 libtbbbind-2-5 libxsimd-dev 'libcatch2-dev|catch2' nlohmann-json3-dev
    libcli11-dev)
sysroot=$repo_root/build/arm64-sysroot
work=$repo_root/build/arm64-packages

# The stamp is written last, and names what is inside.
[[ ! -f $sysroot/complete || $(<"$sysroot/complete") != "${packages[*]}" ]] || exit 0
command -v apt-get >/dev/null || die "fetches Debian's or Ubuntu's arm64 packages, and there is no apt here"

rm -rf -- "$sysroot" "$work"
mkdir -p -- "$sysroot" "$work"/{lists,archives}/partial "$work"/{sources,debs}

# Debian has arm64 on the same servers; Ubuntu has it on others.
distribution=$(. /etc/os-release && echo "$ID")
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
sources_list=/etc/apt/sources.list
sources_parts=/etc/apt/sources.list.d
if [[ $distribution == ubuntu ]]; then
    sources_list=$work/sources.list
    sources_parts=$work/sources
    for suite in "$codename" "$codename-updates"; do
        say "deb http://ports.ubuntu.com/ubuntu-ports $suite main universe"
    done >"$sources_list"
fi

cat >"$work/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "$(id -un)";
Dir::State "$work";
Dir::State::lists "$work/lists";
Dir::State::status "/dev/null";
Dir::Cache "$work";
Dir::Etc::sourcelist "$sources_list";
Dir::Etc::sourceparts "$sources_parts";
CONF
export APT_CONFIG=$work/apt.conf

say "Fetching arm64 packages: ${packages[*]}"
# A source of other people's packages may lack arm64; what counts is whether the packages below can be had.
apt-get update -q >"$work/log" 2>&1 </dev/null || true
mapfile -t names < <(known_names "${packages[@]}")
if ! (cd "$work/debs" && apt-get download -q "${names[@]}" >>"$work/log" 2>&1 </dev/null); then
    tail -n 15 "$work/log" >&2
    die "apt could not fetch the arm64 packages"
fi
for deb in "$work"/debs/*.deb; do dpkg-deb --extract "$deb" "$sysroot"; done
rm -rf -- "$work"
say "${packages[*]}" >"$sysroot/complete"
