#!/bin/bash
# Tries a Debian package on this machine, and leaves no trace: it works in a copy-on-write view of the root directory, in a network of its
# own. Installs it as root on a host without a log and on one with nginx's, starts the service from its unit, upgrades it over a running
# data directory, removes and purges it. Where no systemd runs, systemctl.sh stands in for it.
#
# Then it goes the way of INSTALL.md (walk.sh).
#
#   bash deploy/release/try.sh DEB [RPM]
set -Eeuo pipefail
trap 'printf "FAIL: line %s: %s\n" "$LINENO" "$BASH_COMMAND"' ERR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
unit=floodgate-serve.service settings=/etc/floodgate/serve.env data=/var/lib/floodgate-serve log=/var/log/nginx/access.log
run=/run/stand-in

say() { printf -- '-- %s\n' "$*"; }
fail() {
  printf 'FAIL: %s\n' "$*"
  tail -n 20 "$run/floodgate-serve.log" 2>/dev/null || true
  exit 1
}

# want WHAT COMMAND...: the command succeeds.
want() {
  local what=$1
  shift
  "$@" || fail "$what: got a failure of '$*', want success"
}
refuse() {
  local what=$1
  shift
  ! "$@" || fail "$what: got success of '$*', want a failure"
}

# older makes the package of an earlier version, with the settings file of that version, as a base to upgrade.
older() {
  dpkg-deb -R "$1" "$2.d"
  sed -i 's/^Version: .*/Version: 0.0.0~~older/' "$2.d/DEBIAN/control"
  echo '# the settings of an older version' >>"$2.d$settings"
  dpkg-deb --root-owner-group -Znone -b "$2.d" "$2" >/dev/null
}


# outside makes the view, and goes on inside.
outside() {
  [ "$(id -u)" -eq 0 ] || fail "want root: it installs a package"
  local view
  view=$(mktemp -d)
  cp "$1" "$view/newer.deb"
  older "$view/newer.deb" "$view/older.deb"
  [ -z "${2:-}" ] || cp "$2" "$view/floodgate.rpm"
  cp "$here"/*.sh "$here/../INSTALL.md" "$view"
  local rc=0
  # shellcheck disable=SC2016 # the inner shell expands them
  timeout 300 unshare --mount --net --pid --fork bash -ec '
    mkdir "$1/layer"
    mount -t tmpfs none "$1/layer"
    mkdir "$1/layer/upper" "$1/layer/work" "$1/layer/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$1/layer/upper,workdir=$1/layer/work" "$1/layer/root"
    root=$1/layer/root
    mount -t proc none "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs none "$root/tmp"
    mount -t tmpfs none "$root/run"
    find "$1" -maxdepth 1 -type f -exec cp -t "$root/tmp" {} +
    ip link set lo up
    exec chroot "$root" bash /tmp/try.sh --inside
  ' try "$view" || rc=$?
  rm -rf "$view"
  return "$rc"
}

# prepare makes the view a host on which systemd runs, and on which there is neither a log nor anything of floodgate.
prepare() {
  export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root
  [ ! -e /usr/bin/floodgate ] || dpkg --purge floodgate >/dev/null
  rm -rf /etc/floodgate "$data" /var/log/nginx /usr/sbin/policy-rc.d
  mv /usr/bin/systemctl /usr/bin/systemctl.real
  install -m 755 /tmp/systemctl.sh /usr/bin/systemctl
  mkdir -p /run/systemd/system "$run"
}

# traces prints all that a package may leave: files, users, groups, links of services.
traces() {
  find /etc /opt /srv /usr /var -xdev \( -path '/var/lib/dpkg' -o -path '/var/log' -o -path '/var/cache' -o -path '/var/lib/rpm' -o -path /var/lib/apt \) -prune \
    -o -print | grep -vE '^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-$' | LC_ALL=C sort
  cat /etc/passwd /etc/group /etc/shadow /etc/gshadow
}

# nothing_left compares with what was there before.
nothing_left() {
  traces >"$run/after"
  diff "$run/before" "$run/after" || fail "$1: got traces, want none"
}

active() { systemctl is-active --quiet "$unit"; }
enabled() { systemctl is-enabled --quiet "$unit"; }
install_deb() { dpkg --install --force-confold "$1" 2>&1; } # apt, which the walk uses, would look for dependencies first

# answers waits until the service says, on the address of its settings, that a request may pass.
answers() {
  local address tries
  address=$(sed -n 's/^FLOODGATE_LISTEN=//p' "$settings")
  for tries in $(seq 100); do
    floodgate probe "http://$address/auth_request" >/dev/null 2>&1 && return
    active || fail "got the end of the service ($tries), want it to answer on $address"
    sleep 0.1
  done
  fail "got no answer on $address for 10 s, want one"
}

# nginx_log makes the log as Debian's nginx and its logrotate leave it.
nginx_log() {
  install -d -m 755 -o root -g adm "${log%/*}"
  echo '203.0.113.9 - - [27/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8.0"' >"$log"
  chown www-data:adm "$log"
  chmod 640 "$log"
}

# names_the_log waits until the service, which ends or waits, says which log it has not got.
names_the_log() {
  local tries
  for tries in $(seq 100); do
    grep -qF "$log" "$run/floodgate-serve.log" && return
    sleep 0.1
  done
  fail "got no word of $log from a service without it ($tries tries), want its name"
}

without_a_log() {
  say "on a host without a log: installed, and not started"
  local out
  out=$(install_deb /tmp/older.deb)
  grep -qF "no log $log. Say in $settings" <<<"$out" || fail "got an installation that does not say what to set: $out"
  refuse "without a log" enabled
  refuse "without a log" active
  systemctl start "$unit"
  names_the_log
  systemctl stop "$unit"
  dpkg --purge floodgate >/dev/null
  nothing_left "purged after an installation without a log"
}

with_a_log() {
  say "on a host with nginx's log: installed, started, answers"
  nginx_log
  traces >"$run/before"
  install_deb /tmp/older.deb >/dev/null
  want "installed" enabled
  want "installed" active
  answers
  local pid
  pid=$(cat "$run/floodgate-serve.pid")
  [ "$(stat -c %U "/proc/$pid")" = floodgate ] || fail "got the service as $(stat -c %U "/proc/$pid"), want floodgate"
  grep -qE '^CapBnd:\s+0+$' "/proc/$pid/status" || fail "got capabilities, want none: $(grep Cap "/proc/$pid/status")"
  [ "$(stat -c %U:%a "$data")" = floodgate:700 ] || fail "got $data as $(stat -c %U:%a "$data"), want floodgate:700"
  awk '/^VmRSS/ {printf "   at rest it takes %d MiB\n", $2 / 1024}' "/proc/$pid/status"
  [ -n "$(find "$data" -type f)" ] || fail "got no file in $data, want what the service keeps"
}

# ends_with CODE WORD waits for the end of the service, which the unit does not start again after this code.
ends_with() {
  local tries
  for tries in $(seq 100); do
    [ ! -e "$run/floodgate-serve.code" ] || break
    sleep 0.1
  done
  [ "$(cat "$run/floodgate-serve.code" 2>/dev/null)" = "$1" ] || fail "got the exit code '$(cat "$run/floodgate-serve.code" 2>/dev/null)' ($tries tries), want $1"
  grep -qE "^RestartPreventExitStatus=.*\b$1\b" "/usr/lib/systemd/system/$unit" || fail "got a unit that starts it again after $1, want it not"
  tail -n 5 "$run/floodgate-serve.log" | grep -qF "$2" || fail "got a log without '$2', want it"
}

# reloads: SIGHUP reads the rules again. Those that cannot be used change nothing.
reloads() {
  say "reloaded: reads the rules"
  local tries
  sed -i.before 's/limit: 300,/limit: none,/' "$data/rules.yaml"
  systemctl reload "$unit"
  for tries in $(seq 100); do
    ! grep -qF 'rules not changed: the file cannot be used' "$run/floodgate-serve.log" || break
    sleep 0.1
  done
  [ "$tries" -lt 100 ] || fail "got no word of rules that cannot be used, want it"
  mv "$data/rules.yaml.before" "$data/rules.yaml"
  want "reloaded" active
}

# cannot_work: what no restart mends ends the service, with a word that says what to do.
cannot_work() {
  say "a log that it may not read, and data of another version: it ends, and says why"
  systemctl stop "$unit"
  chmod 600 "$log"
  systemctl start "$unit"
  ends_with 2 'belongs to group adm'
  chmod 640 "$log"
  sed -i.before 's/"version":1/"version":99/' "$data/serve.json"
  systemctl start "$unit"
  ends_with 2 'got version 99'
  mv "$data/serve.json.before" "$data/serve.json"
  systemctl start "$unit"
  answers
}

upgraded() {
  say "upgraded while it runs: restarted, with the admin's settings and all data"
  local before
  printf '# mine\nFLOODGATE_LOG_LEVEL=info\n' >>"$settings"
  before=$(cat "$run/floodgate-serve.pid")
  touch "$data/stays"
  install_deb /tmp/newer.deb >"$run/out" || fail "upgrade: $(cat "$run/out")"
  want "upgraded" active
  [ "$(cat "$run/floodgate-serve.pid")" != "$before" ] || fail "got the process of the older version, want it restarted"
  answers
  grep -qx '# mine' "$settings" || fail "got $settings without the admin's line"
  want "upgraded" test -e "$data/stays"
  say "stopped and disabled by the admin: an upgrade leaves it so"
  systemctl stop "$unit"
  systemctl disable "$unit" 2>/dev/null
  install_deb /tmp/newer.deb >/dev/null
  refuse "disabled" enabled
  refuse "disabled" active
  systemctl enable "$unit" 2>/dev/null
  systemctl start "$unit"
  answers
}

removed() {
  say "removed: stopped, settings and data stay"
  dpkg --remove floodgate >/dev/null
  refuse "removed" pgrep -u floodgate
  want "removed" test -e "$settings"
  want "removed" test -n "$(find "$data" -type f)"
  say "purged: nothing is left, and a file of somebody else's is"
  echo secret >/etc/floodgate/partition.key
  dpkg --purge floodgate >/dev/null 2>&1
  want "purged" rm /etc/floodgate/partition.key
  rmdir /etc/floodgate
  nothing_left "purged"
}

# with_rpm runs the scripts of the other package. There is no database of packages for it here, so dependencies are not looked for.
with_rpm() {
  [ -e /tmp/floodgate.rpm ] || return 0
  say "the RPM: installed and not started, as its distributions want it; started; removed"
  rpm -i --nodeps --force-debian /tmp/floodgate.rpm
  refuse "rpm" active
  systemctl start "$unit"
  answers
  rpm -e --nodeps --force-debian floodgate
  refuse "rpm removed" pgrep -u floodgate
  want "rpm removed" test ! -e /usr/bin/floodgate
}

inside() {
  prepare
  traces >"$run/before"
  without_a_log
  with_a_log
  reloads
  cannot_work
  upgraded
  removed
  walk
  with_rpm
  say "the package installs, starts, upgrades, and goes away"
}

# shellcheck source=deploy/release/walk.sh
. "$here/walk.sh"
if [ "$1" = --inside ]; then inside; else outside "$@"; fi
