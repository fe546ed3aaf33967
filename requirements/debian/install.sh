#!/bin/sh
# install.sh PACKAGE...: installs those of Debian's packages that are missing, as root or with sudo.
# None of their services starts, now or at the next boot: who wants one enables it.
set -eu

missing=$(for package in "$@"; do
    dpkg-query -Wf '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
done)
test -n "$missing" || exit 0
test "$(id -u)" = 0 || exec sudo "$0" "$@"
# shellcheck disable=SC2086 # words are packages
echo "Installing from Debian:" $missing

log=$(mktemp)
policy=/usr/sbin/policy-rc.d # what packages ask before they start a service
ours=
finish() {
    code=$?
    test -z "$ours" || rm "$policy"
    test $code -eq 0 || cat "$log"
    rm "$log"
}
trap finish EXIT
enabled() { find /etc/systemd/system /etc/rc[2-5].d -name '*.service' -o -name 'S*' 2>/dev/null | sort; }

if ! test -e "$policy"; then
    ours=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
before=$(enabled)
apt-get update -qq >"$log" 2>&1
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >"$log" 2>&1
for link in $(enabled); do
    case "$before" in *"$link"*) continue ;; esac
    case "$link" in
    /etc/rc?.d/S*) name=${link##*/S[0-9][0-9]} && test ! -e "/etc/init.d/$name" || update-rc.d "$name" disable ;;
    *) DPKG_MAINTSCRIPT_PACKAGE=none deb-systemd-helper disable "${link##*/}" ;;
    esac
done >"$log" 2>&1
