# netns.sh - Hosts of a system test: network namespaces on one switch.
#
# A test sources it before lib.sh, and then runs in namespaces of its own, for
# the network and for mounts: nothing of it remains, and no packet can leave.
# The test itself is the host `admin`, at 10.77.0.254 and fd77::254.
#
#     make_network [4|6|46]      the switch, with IPv4, IPv6 or both
#     make_host a 1              a host at 10.77.0.1 and fd77::1
#     on a COMMAND...            runs it there
#     at=(${words_of[a]})        the words before a command that start() takes
#     name_hosts '10.77.0.1 a'   the lines of /etc/hosts, for all hosts
#     make_key NAME ROLE         a key that all trust
# shellcheck shell=bash
if [ "${SLUICE_NETNS:-}" != inside ]; then
    as_root=(unshare --net --mount --propagation private)
    [ "$(id -u)" -eq 0 ] || as_root+=(--map-root-user)
    if ! "${as_root[@]}" ip link add cable type veth peer name end 2>/dev/null
    then
        echo "${0##*/}: skipped: network namespaces cannot be made here" \
            '(root or user namespaces, iproute2 and veth are needed)'
        exit 77
    fi
    SLUICE_NETNS=inside exec "${as_root[@]}" "$0" "$@"
fi

declare -A words_of=()
families=46
hosts_mounted=

# address_of NUMBER: a host's address, in the family of the test; IPv6 in
# brackets.
address_of()
{
    if [ "$families" = 6 ]; then echo "[fd77::$1]"; else echo "10.77.0.$1"; fi
}

# add_addresses DEVICE NUMBER [WORDS...]: WORDS stand before each command.
add_addresses()
{
    local device=$1 number=$2
    shift 2

    if [[ $families == *4* ]]; then
        "$@" ip address add "10.77.0.$number/24" dev "$device"
    fi
    if [[ $families == *6* ]]; then
        "$@" ip -6 address add "fd77::$number/64" dev "$device" nodad
    fi
}

make_network()
{
    families=${1:-46}
    ip link set lo up
    ip link add switch type bridge
    ip link set switch up
    add_addresses switch 254
}

make_host()
{
    local name=$1 number=$2

    touch "$dir/$name.net"
    unshare --net="$dir/$name.net" true
    words_of[$name]="nsenter --net=$dir/$name.net"
    ip link add "to-$name" type veth peer name eth0 netns "$dir/$name.net"
    ip link set "to-$name" master switch up
    on "$name" ip link set lo up
    on "$name" ip link set eth0 up
    # shellcheck disable=SC2086
    add_addresses eth0 "$number" ${words_of[$name]}
}

on()
{
    local name=$1

    shift
    nsenter "--net=$dir/$name.net" "$@"
}

# The file is written in place: it is mounted over /etc/hosts.
name_hosts()
{
    printf '%s\n' '127.0.0.1 localhost' "$@" >"$dir/hosts"
    if [ -z "$hosts_mounted" ]; then
        mount --bind "$dir/hosts" /etc/hosts
        hosts_mounted=yes
    fi
}

# plug HOST up|down: its cable to the switch.
plug()
{
    ip link set "to-$1" "$2"
}

make_key()
{
    mkdir -p "$keys" "$trust"
    "$bin/sluicectl" keygen "$1" --role "$2" --dir "$keys" >/dev/null
    cp "$keys/$1.cert" "$trust/"
}
