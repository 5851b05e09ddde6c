# bare_root.sh - Bare Debian 12 systems in folders, for tests that install
# packages.  Needs root, debootstrap and a mirror; the mirror, apt's settings and
# proxies are those of this machine.
#
# One system is made and kept in build/cache; each test unpacks a copy.
# shellcheck shell=bash

# Prints why there can be no bare system here; fails if there can.
bare_root_missing()
{
    if [ "$(id -u)" -ne 0 ]; then
        echo 'root is required for debootstrap and chroot'
    elif ! command -v debootstrap >/dev/null; then
        echo 'debootstrap is not installed'
    else
        return 1
    fi
}

# The main archive in this machine's sources.
bare_root_mirror()
{
    apt-get indextargets --format '$(REPO_URI) $(CODENAME)' \
        'Created-By: Packages' | awk '$2 == "bookworm" { print $1; exit }'
}

# Settings that apt needs inside to reach the mirrors, as outside.
bare_root_apt()
{
    local to=$1 at

    cp -a /etc/apt/. "$to/etc/apt/"
    for at in /etc/resolv.conf /etc/hosts /etc/ssl/certs /usr/share/keyrings \
        /usr/local/share/ca-certificates; do
        if [ -e "$at" ]; then
            mkdir -p "$to$(dirname "$at")"
            cp -aL "$at" "$to$(dirname "$at")/"
        fi
    done
}

# Makes the kept system, under a lock: tests run side by side.
bare_root_keep()
{
    local kept=$1 made

    mkdir -p "$(dirname "$kept")"
    (
        flock 9
        if [ -s "$kept" ]; then exit 0; fi
        made=$(mktemp -d "${TMPDIR:-/var/tmp}/sluice-root.XXXXXX")
        trap 'rm -rf --one-file-system "$made" "$kept.new"' EXIT
        debootstrap --variant=minbase bookworm "$made" "$(bare_root_mirror)" \
            >"$kept.log" 2>&1 || {
            tail -n 20 "$kept.log" >&2
            exit 1
        }
        bare_root_apt "$made"
        chroot "$made" apt-get update -q >>"$kept.log" 2>&1 || {
            tail -n 20 "$kept.log" >&2
            exit 1
        }
        tar -C "$made" -cf "$kept.new" .
        mv "$kept.new" "$kept"
    ) 9>"$kept.lock"
}

# bare_root TO: unpacks a bare system, with apt's lists, into the folder TO.
bare_root()
{
    local to=$1
    local kept=${BARE_ROOT_CACHE:-$root/build/cache}/bookworm.tar

    # The kept one was made in a folder of root alone; its daemons are not root.
    bare_root_keep "$kept" && mkdir -p "$to" && tar -C "$to" -xpf "$kept" &&
        chmod 755 "$to"
}

# in_root TO COMMAND...: runs a command in the system, with a clean environment.
in_root()
{
    local to=$1
    shift

    chroot "$to" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} "$@"
}
