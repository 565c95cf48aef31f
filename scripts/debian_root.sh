# SPDX-License-Identifier: Apache-2.0
# Functions for scripts that work in a root file system of Debian. Source this file in the project's folder.
#
# A root is created once by debootstrap, from the mirror that this machine's apt uses, and is kept in $roots:
# /var/cache/sluice, or SLUICE_ROOTS. Creating and entering one needs root rights. Each function says what is missing
# and ends the script with the exit status $no_root.
# shellcheck shell=bash

roots=${SLUICE_ROOTS:-/var/cache/sluice}
no_root=${no_root:-1}

root_fails() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit "$no_root"
}

# The address from which apt gets this release's packages: other releases are at the same address.
root_mirror() {
    local codename=
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk -v release="$codename" '$1 == release && $2 == "main" { print $3; exit }'
}

# Prints the proxy that apt uses, or nothing.
root_proxy() {
    local proxy=
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    echo "$proxy"
}

# require_root_rights RELEASE
require_root_rights() {
    ((EUID == 0)) || root_fails "creating and entering a root of $1 needs root rights"
    unshare --mount true 2>/dev/null || root_fails "this machine does not permit mounts, which a root of $1 needs"
    mkdir -p "$roots"
}

# make_root FOLDER RELEASE [PACKAGE...]: creates the root, if it is not there with the same packages. Two scripts at once
# are no problem.
make_root() {
    local root=$1 release=$2 lock
    shift 2
    exec {lock}>"$roots/lock"
    flock "$lock"
    if [[ ! -d $root || $(cat "$root/etc/sluice_packages" 2>/dev/null) != "$*" ]]; then
        create_root "$root" "$release" "$@"
    fi
    exec {lock}>&-
}

create_root() {
    local root=$1 release=$2 from proxy list
    shift 2
    command -v apt-get >/dev/null || root_fails "apt-get, which names a mirror of Debian's packages, is not installed"
    from=$(root_mirror)
    [[ $from ]] || root_fails "apt's sources name no mirror of this release, so the mirror for $release is not known"
    if ! command -v debootstrap >/dev/null; then
        DEBIAN_FRONTEND=noninteractive scripts/quietly "$roots/apt.log" \
            apt-get install -qq -y --no-install-recommends debootstrap ||
            root_fails "debootstrap is not installed, and apt-get could not install it"
    fi
    proxy=$(root_proxy)
    [[ ! $proxy ]] || export http_proxy=$proxy
    echo "creating a root of Debian's $release in $root"
    rm -rf --one-file-system "$root.new" "$root"
    list=$(IFS=,; echo "$*")
    scripts/quietly "$roots/debootstrap.log" \
        debootstrap --variant=minbase ${list:+--include="$list"} "$release" "$root.new" "$from" ||
        root_fails "debootstrap could not create a root of $release: see above. It needs the network and disk space in $roots"
    rm -rf "$root.new"/var/cache/apt/archives/*.deb
    echo "$*" >"$root.new/etc/sluice_packages"
    mv "$root.new" "$root"
}

# enter_root ROOT FOLDER COMMAND [ARGUMENT...]: runs the command in FOLDER, with this working tree and ccache's folder
# bound to the same place and to /ccache. In a separate mount namespace, so that the mounts end with the command.
enter_root() {
    local root=$1 folder=$2 cache
    shift 2
    cache=$(ccache --get-config cache_dir 2>/dev/null || echo "$HOME/.cache/ccache")
    mkdir -p "$cache" "$root/ccache" "$root$PWD"
    ROOT=$root CACHE=$cache FOLDER=$folder unshare --mount --propagation private bash -c '
        set -e
        mount --bind "$PWD" "$ROOT$PWD"
        mount --bind "$CACHE" "$ROOT/ccache"
        mount -t proc proc "$ROOT/proc"
        mount --bind /dev "$ROOT/dev"
        exec env -u ROOT -u CACHE -u FOLDER CCACHE_DIR=/ccache HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            chroot "$ROOT" env --chdir="$FOLDER" "$@"' enter "$@"
}
