#!/usr/bin/env bash
# A real Apache Kafka without Docker: its jars from Maven, one node or several on loopback.
#
#   deploy/kafka/kafka.sh start [--nodes N] [--secure] [DIR]
#                                        fetches what is missing, starts the nodes that don't run, waits until they
#                                        answer; prints host:port,...
#   deploy/kafka/kafka.sh stop  [DIR]    stops them; the records stay in DIR
#   deploy/kafka/kafka.sh wipe  [DIR]    stops them and removes their records
#   deploy/kafka/kafka.sh kill NODE [DIR]  kill -9 of one node; start starts it again
#   deploy/kafka/kafka.sh tool CLASS [ARG]...  runs one of Kafka's own tools, such as kafka.tools.DumpLogSegments
#
# Needs Java 17 and Maven. DIR is kafka-local in the system's temporary directory unless given. KAFKA_PORT is 19092
# unless set; each node takes three ports from there on, ten apart from the next node's. KAFKA_LIBS is where the jars
# are kept, DIR/libs unless set.
#
# Topics have as many replicas as there are nodes, up to three, and of three two must be in sync.
#
# --secure adds a listener that asks who comes: TLS, a certificate of DIR/secure/ca.pem, and SASL. DIR/secure holds what
# clients need: address, ca.pem, client.pem, client.key, and for each user of KAFKA_USERS its NAME.password. They may
# then do what ACLs let them (StandardAuthorizer); admin, and whoever comes by the plain listener, may do everything.
# Needs openssl, and is chosen when DIR is first used.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
users=${KAFKA_USERS:-admin analyzer server ingest notify operator auditor}
first_port=${KAFKA_PORT:-19092}
nodes=1
secure=

die() {
  printf 'kafka.sh: %s\n' "$1" >&2
  exit 1
}

command=${1:-}
shift || true
if [ "$command" = kill ]; then
  victim=${1:-}
  shift || die "kill: want the number of a node"
fi
if [ "$command" = tool ]; then
  tool=("$@")
  set --
fi
while [ $# -gt 0 ]; do
  case $1 in
    --nodes)
      nodes=${2:-}
      shift $(($# > 1 ? 2 : 1))
      ;;
    --secure) secure=yes && shift ;;
    -*) die "got '$1', want --nodes or --secure" ;;
    *) break ;;
  esac
done
dir=${1:-${TMPDIR:-/tmp}/kafka-local}
libs=${KAFKA_LIBS:-$dir/libs}
[[ $nodes =~ ^[1-9]$ ]] || die "--nodes: got '$nodes', want 1 to 9"

home() { if [ "$1" = 1 ]; then echo "$dir"; else echo "$dir/node$1"; fi; }
port() { echo $((first_port + 10 * ($1 - 1))); }
running() { [ -f "$(home "$1")/pid" ] && kill -0 "$(cat "$(home "$1")/pid")" 2>/dev/null; }
java_kafka() { java -cp "$libs/*" "-Dlog4j2.configurationFile=$here/log4j2.yaml" "$@"; }

fetch() {
  [ -f "$libs/.complete" ] && return
  command -v java >/dev/null || die "got no java, want Java 17 or later"
  command -v mvn >/dev/null || die "got no mvn, want Maven to fetch Kafka's jars"
  mkdir -p "$libs"
  exec 8>"$libs/.lock" # tests of several packages may want the jars at once
  if command -v flock >/dev/null; then flock 8; fi
  if [ -f "$libs/.complete" ]; then
    exec 8>&-
    return
  fi
  mvn -q -B -f "$here/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$libs" >&2
  touch "$libs/.complete"
  exec 8>&-
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# certificate NAME signs a certificate for loopback with the authority in DIR/secure.
certificate() {
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"
  openssl req -new -key "$1.key" -subj "/CN=$1" |
    openssl x509 -req -days 30 -CA ca.pem -CAkey ca.key -CAcreateserial -out "$1.pem" \
      -extfile <(echo "subjectAltName=IP:127.0.0.1,DNS:localhost") 2>/dev/null
}

# secrets makes the authority, the certificates and the passwords.
secrets() {
  [ -f "$dir/secure/address" ] && return
  command -v openssl >/dev/null || die "got no openssl, want it for --secure"
  mkdir -p "$dir/secure"
  chmod 700 "$dir/secure"
  (
    cd "$dir/secure"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -keyout ca.key -out ca.pem \
      -subj "/CN=floodgate test authority" 2>/dev/null
    certificate server
    certificate client
    cat server.key server.pem >server.both.pem
    for user in $users; do openssl rand -hex 16 >"$user.password"; done
    echo "127.0.0.1:$((first_port + 2))" >address
  )
}

# properties NODE prints the settings of one node.
properties() {
  local p voters=() i replicas=$((nodes < 3 ? nodes : 3)) listeners advertised protocols=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
  p=$(port "$1")
  for i in $(seq "$nodes"); do voters+=("$i@127.0.0.1:$(($(port "$i") + 1))"); done
  listeners="PLAINTEXT://127.0.0.1:$p,CONTROLLER://127.0.0.1:$((p + 1))"
  advertised="PLAINTEXT://127.0.0.1:$p"
  if [ -n "$secure" ]; then
    listeners+=",SECURE://127.0.0.1:$((p + 2))"
    advertised+=",SECURE://127.0.0.1:$((p + 2))"
    protocols+=",SECURE:SASL_SSL"
  fi
  sed -e "s|NODE|$1|g" -e "s|LISTENERS|$listeners|g" -e "s|ADVERTISED|$advertised|g" -e "s|PROTOCOLS|$protocols|g" \
    -e "s|VOTERS|$(IFS=, && echo "${voters[*]}")|g" -e "s|REPLICAS|$replicas|g" -e "s|IN_SYNC|$((replicas > 2 ? 2 : 1))|g" \
    -e "s|DIR|$(home "$1")|g" "$here/server.properties"
  [ -n "$secure" ] || return 0
  local plain='' user
  for user in $users; do plain+=" user_$user=\"$(cat "$dir/secure/$user.password")\""; done
  sed -e "s|SECRETS|$dir/secure|g" -e "s|PLAIN_USERS|$plain|g" "$here/secure.properties"
}

# format NODE readies a node's directory for the cluster, with the users that log in by SCRAM.
format() {
  local scram=() user
  if [ -n "$secure" ]; then
    for user in $users; do
      scram+=(--add-scram "SCRAM-SHA-256=[name=$user,password=$(cat "$dir/secure/$user.password")]"
        --add-scram "SCRAM-SHA-512=[name=$user,password=$(cat "$dir/secure/$user.password")]")
    done
  fi
  [ -f "$dir/cluster" ] || java_kafka kafka.tools.StorageTool random-uuid >"$dir/cluster"
  java_kafka kafka.tools.StorageTool format "${scram[@]}" -t "$(cat "$dir/cluster")" -c "$(home "$1")/server.properties" \
    >"$(home "$1")/format.log" 2>&1 || die "cannot format: see $(home "$1")/format.log"
}

# launch NODE starts one node; it does not wait.
launch() {
  local home
  home=$(home "$1")
  mkdir -p "$home"
  properties "$1" >"$home/server.properties"
  [ -d "$home/data" ] || format "$1"
  nohup java -cp "$libs/*" "-Dlog4j2.configurationFile=$here/log4j2.yaml" -Xms256m "-Xmx$((nodes > 1 ? 512 : 1024))m" \
    kafka.Kafka "$home/server.properties" >"$home/kafka.log" 2>&1 </dev/null &
  echo $! >"$home/pid"
}

# A broker that accepts connections does not yet know its cluster: wait for its own word.
ready() { answers "$(port "$1")" && grep -q 'Kafka Server started' "$(home "$1")/kafka.log"; }

start() {
  local i addresses=()
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  fetch
  [ -z "$secure" ] || secrets
  for i in $(seq "$nodes"); do
    running "$i" && continue
    answers "$(port "$i")" && die "port $(port "$i") is in use"
    launch "$i"
  done
  for i in $(seq "$nodes"); do
    for _ in $(seq 300); do
      ready "$i" && break
      running "$i" || die "ended while starting: see $(home "$i")/kafka.log"
      sleep 0.2
    done
    ready "$i" || die "does not answer within a minute: see $(home "$i")/kafka.log"
    addresses+=("127.0.0.1:$(port "$i")")
  done
  (IFS=, && echo "${addresses[*]}")
}

# all prints the numbers of the nodes that were ever started in DIR.
all() {
  local i
  for i in $(seq 9); do if [ -d "$(home "$i")" ]; then echo "$i"; fi; done
}

# stop asks all nodes at once, since a quorum that has gone lets nobody leave in peace.
stop() {
  local i pid
  for i in $(all); do if running "$i"; then kill "$(cat "$(home "$i")/pid")"; fi; done
  for i in $(all); do
    running "$i" || continue
    pid=$(cat "$(home "$i")/pid")
    for _ in $(seq 100); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.2
    done
    kill -9 "$pid" 2>/dev/null || true
  done
  for i in $(all); do rm -f "$(home "$i")/pid"; done
}

wipe() {
  local i
  stop
  for i in $(all); do rm -rf "$(home "$i")/data"; done
  rm -rf "$dir/secure" "$dir/cluster"
}

kill_node() {
  running "$victim" || die "node $victim does not run"
  kill -9 "$(cat "$(home "$victim")/pid")"
  while kill -0 "$(cat "$(home "$victim")/pid")" 2>/dev/null; do sleep 0.05; done
  rm -f "$(home "$victim")/pid"
}

case $command in
  start) start ;;
  stop) stop ;;
  wipe) wipe ;;
  kill) kill_node ;;
  tool)
    fetch
    java_kafka "${tool[@]}"
    ;;
  *) die "got '$command', want start, stop, wipe, kill or tool" ;;
esac
