#!/bin/bash
# Stands in for systemctl where no systemd runs, so that try.sh can start a service from its unit: as the unit's user and groups, with its
# environment, its directories and without capabilities; what ProtectSystem=strict makes read-only is read-only. It reads what
# floodgate-serve.service says, and cannot do what it leaves out (SystemCallFilter and the like). The real systemctl, which works on files,
# enables and disables.
set -euo pipefail
state=/run/stand-in
mkdir -p "$state"

words=()
for word in "$@"; do [[ $word == -* ]] || words+=("$word"); done
action=${words[0]:-} name=${words[1]:-}
name=${name%.service}

# setting NAME prints the values of a line of the unit, one a line.
setting() { sed -n "s/^$1=//p" "/usr/lib/systemd/system/$name.service" | sed 's|%S|/var/lib|g; s|%E|/etc|g'; }
pid() { cat "$state/$name.pid" 2>/dev/null; }
is_active() { [ -e "/proc/$(pid || echo none)/cmdline" ]; }

start() {
  ! is_active || return 0
  local user group groups directory umask command environment=() line
  user=$(setting User) group=$(setting Group) directory=/var/lib/$(setting StateDirectory)
  # shellcheck disable=SC2046 # one word or none
  groups=$(getent group "$group" $(setting SupplementaryGroups) | cut -d: -f3 | paste -sd,)
  install -d -m "$(setting StateDirectoryMode)" -o "$user" -g "$group" "$directory"
  read -ra environment <<<"$(setting Environment | xargs)"
  while read -r line; do environment+=("$line"); done < <(grep -v -e '^#' -e '^$' "$(setting EnvironmentFile)")
  umask=$(setting UMask) command=$(setting ExecStart)
  export name directory user group groups umask command
  rm -f "$state/$name.code"
  # shellcheck disable=SC2016 # the inner shell expands them
  {
    code=0
    setsid unshare --mount bash -ec '
    mount --bind "$directory" "$directory"
    mount -o remount,bind,ro /
    mount -t tmpfs none /tmp
    umask "$umask"
    echo $$ >"/run/stand-in/$name.pid"
    exec env -i PATH=/usr/bin:/bin "$@" setpriv --reuid "$user" --regid "$group" --groups "$groups" \
      --bounding-set -all --inh-caps -all --no-new-privs $command
  ' start "${environment[@]}" || code=$?
    echo "$code" >"$state/$name.code"
  } >>"$state/$name.log" 2>&1 </dev/null &
  until is_active || [ -e "$state/$name.code" ]; do sleep 0.05; done
}

# stop ends it as the unit says, with SIGTERM and in the unit's time. It fails if that was not enough.
stop() {
  local before
  before=$(pid) || return 0
  kill -TERM "$before" 2>/dev/null || true
  timeout "$(setting TimeoutStopSec)" tail --pid "$before" -f /dev/null
  rm "$state/$name.pid"
}

case $action in
daemon-reload) ;;
is-active) is_active ;;
start) start ;;
stop) stop ;;
restart) stop; start ;;
try-restart) ! is_active || { stop; start; } ;;
reload) kill -HUP "$(pid)" ;;
disable | enable)
  SYSTEMD_OFFLINE=1 /usr/bin/systemctl.real "$action" "$name.service"
  [[ " $* " != *" --now "* ]] || if [ "$action" = enable ]; then start; else stop; fi
  ;;
*) SYSTEMD_OFFLINE=1 exec /usr/bin/systemctl.real "$@" ;;
esac
