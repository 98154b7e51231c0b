#!/usr/bin/env bash
# A real Apache Kafka without Docker: its jars from Maven, one node on loopback.
#
#   deploy/kafka/kafka.sh start [DIR]    fetches what is missing, starts, waits until it answers; prints host:port
#   deploy/kafka/kafka.sh stop  [DIR]    stops it; the records stay in DIR/data
#   deploy/kafka/kafka.sh wipe  [DIR]    stops it and removes its records
#
# Needs Java 17 and Maven. DIR is kafka-local in the system's temporary directory unless given. KAFKA_PORT is 19092
# unless set; the port above it is the controller's.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command=${1:-}
dir=${2:-${TMPDIR:-/tmp}/kafka-local}
port=${KAFKA_PORT:-19092}

die() {
  printf 'kafka.sh: %s\n' "$1" >&2
  exit 1
}

running() { [ -f "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }

fetch() {
  [ -f "$dir/libs/.complete" ] && return
  command -v java >/dev/null || die "got no java, want Java 17 or later"
  command -v mvn >/dev/null || die "got no mvn, want Maven to fetch Kafka's jars"
  mkdir -p "$dir/libs"
  mvn -q -B -f "$here/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$dir/libs" >&2
  touch "$dir/libs/.complete"
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }

start() {
  if running; then
    echo "127.0.0.1:$port"
    return
  fi
  answers && die "port $port is in use"
  fetch
  sed -e "s|PORT|$port|g" -e "s|CONTROL|$((port + 1))|g" -e "s|DIR|$dir|g" "$here/server.properties" >"$dir/server.properties"
  local java=(java -cp "$dir/libs/*" "-Dlog4j2.configurationFile=$here/log4j2.yaml")
  if [ ! -d "$dir/data" ]; then
    "${java[@]}" kafka.tools.StorageTool format --standalone \
      -t "$("${java[@]}" kafka.tools.StorageTool random-uuid)" -c "$dir/server.properties" >"$dir/format.log" 2>&1 ||
      die "cannot format: see $dir/format.log"
  fi
  nohup "${java[@]}" -Xms256m -Xmx1g kafka.Kafka "$dir/server.properties" >"$dir/kafka.log" 2>&1 </dev/null &
  echo $! >"$dir/pid"
  for _ in $(seq 300); do
    if answers && ready; then
      echo "127.0.0.1:$port"
      return
    fi
    running || die "ended while starting: see $dir/kafka.log"
    sleep 0.2
  done
  die "does not answer within a minute: see $dir/kafka.log"
}

# A broker that accepts connections does not yet know its cluster: wait for its own word.
ready() { grep -q 'Kafka Server started' "$dir/kafka.log"; }

stop() {
  running || return 0
  local pid
  pid=$(cat "$dir/pid")
  kill "$pid"
  for _ in $(seq 150); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.2
  done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$dir/pid"
}

case $command in
  start) start ;;
  stop) stop ;;
  wipe) stop && rm -rf "$dir/data" ;;
  *) die "got '$command', want start, stop or wipe" ;;
esac
