#!/bin/sh
# in_own_folder.sh COMMAND...: runs a test with a temporary folder of its own, which goes with it.
# Tests run side by side: what they make under one name in one folder would be each other's.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
chmod 1777 "$folder" # as /tmp: some commands of tests run as another user
TMPDIR=$folder TEST_TMPDIR=$folder "$@"
