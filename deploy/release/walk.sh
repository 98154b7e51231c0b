# The part of try.sh that goes the way of INSTALL.md, from the package to the first refused request. It is read by try.sh, inside the view:
# the commands are those of the page, nginx and logrotate are Debian's.
# shellcheck shell=bash disable=SC2154 # try.sh has the variables

# walk_commands prints the commands of the page's first block, one a line.
# shellcheck disable=SC2016 # nothing there is to be expanded
walk_commands() { sed -n '/^## From the package/,$p' /tmp/INSTALL.md | sed -n '/^```sh$/,/^```$/{/^```/!p;/^```$/q}' | sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba}'; }

# walk_host makes the view a host of Debian with nginx, which has served a request. Its sudo is a stand-in, since all is done by root.
walk_host() {
  mkdir -p "$run/bin"
  cat >"$run/bin/sudo" <<'EOF'
#!/bin/bash
as=()
while [[ $1 == -* ]]; do
  case $1 in
  -u) as+=(--reuid "$2") ;;
  -g) as+=(--regid "$2") ;;
  esac
  shift 2
done
[ "${#as[@]}" -eq 0 ] || exec setpriv "${as[@]}" --clear-groups "$@"
exec "$@"
EOF
  chmod 755 "$run/bin/sudo"
  nginx_log
  nginx
  [ "$(answer_to 127.0.0.1)" = 200 ] || fail "got $(answer_to 127.0.0.1) from nginx before the walk, want 200"
}

# answer_to prints the status that nginx gives to a request from an address.
answer_to() { curl -s -o /dev/null -w '%{http_code}' --interface "$1" http://127.0.0.1/; }

# rotate lets logrotate rotate nginx's logs while requests come.
rotate() {
  until [ "$(grep -c '^127\.0\.0\.2 ' "$log")" -ge 100 ]; do sleep 0.05; done
  logrotate --force --state "$run/logrotate" /etc/logrotate.d/nginx
}

# lines prints how many lines nginx has written since the package was installed.
lines() { echo $(($(cat "$log" "$log.1" | wc -l) - 2)); } # less that of nginx_log, and the request of walk_host

# counted waits until the service has read each of them, once.
counted() {
  local tries got
  for tries in $(seq 100); do
    got=$(curl -s http://127.0.0.1:9090/metrics | sed -n 's/^floodgate_ingest_lines_total //p')
    [ "$got" != "$(lines)" ] || return 0
    sleep 0.1
  done
  fail "got $got lines read after 10 s ($tries tries), want $(lines), each once"
}

walk() {
  say "the walk of INSTALL.md: from the package to the first refused request"
  local command began passed refused n=0 rotating total=$SECONDS
  walk_host
  mkdir -p /tmp/walk
  cp /tmp/newer.deb "/tmp/walk/floodgate_1_$(dpkg --print-architecture).deb"
  while read -r command; do
    n=$((n + 1)) began=$(date +%s%N)
    if [[ $command == for* ]]; then
      rotate &
      rotating=$!
    fi
    (cd /tmp/walk && PATH=$run/bin:$PATH bash -ec "${command/_amd64/_$(dpkg --print-architecture)}") >"$run/out" 2>&1 </dev/null || fail "command $n, $command: $(cat "$run/out")"
    printf '   %d. %4d ms  %s\n' "$n" $((($(date +%s%N) - began) / 1000000)) "$command"
    if [ "$n" -eq 1 ]; then answers; fi # a reader takes longer to paste the next command
    [[ $command != *--check* ]] || grep -q 'serve runs' "$run/out" || fail "got $(cat "$run/out"), want that serve runs"
  done < <(walk_commands)
  want "the walk has five commands" [ "$n" -eq 5 ]
  wait "$rotating" || fail "got no rotation, want one while requests came"
  want "rotated" test -e "$log.1"
  passed=$(sed -n 's/^ *\([0-9]*\) 200$/\1/p' "$run/out") refused=$(sed -n 's/^ *\([0-9]*\) 429$/\1/p' "$run/out")
  if [ "${passed:-0}" -lt 300 ] || [ "${refused:-0}" -eq 0 ]; then fail "got $(cat "$run/out"), want the limit of 300 to pass, then 429"; fi
  curl -si --interface 127.0.0.2 http://127.0.0.1/ >"$run/out"
  if ! grep -q '^HTTP/1.1 429' "$run/out" || ! grep -qi '^Retry-After: [1-9]' "$run/out"; then fail "got $(cat "$run/out"), want 429 with Retry-After"; fi
  [ "$(answer_to 127.0.0.3)" = 200 ] || fail "got $(answer_to 127.0.0.3) for an address that sent one request, want 200"
  counted
  say "walked in $((SECONDS - total)) s: $passed passed, $refused refused, $(lines) lines of two files counted once"
  systemctl stop "$unit"
  want "without floodgate requests pass" [ "$(answer_to 127.0.0.2)" = 200 ]
  nginx -s quit 2>/dev/null
  dpkg --purge floodgate >/dev/null
  sed -i '/floodgate/d' /etc/nginx/sites-available/default
}
