#!/bin/sh
# includes.sh CC BUILD_DIR FILES... - fail if one of the worker core's files
# includes, however indirectly, something of kernels/, common/model/ or
# worker/model/.
cc=$1
build=$2
shift 2
root=$(cd .. && pwd)
for f in "$@"; do
    deps=$("$cc" -std=c11 -D_GNU_SOURCE -I"$root" -I"$build" -MM "$f") || exit 1
    if echo "$deps" | grep -E "$root/(kernels|common/model|worker/model)/"; then
        echo "$f includes what computes"
        exit 1
    fi
done
