#!/usr/bin/env bash
# Stands where Redis' tests look for `src/redis-server`: starts `weir serve` with what Weir has of the settings in the
# file that they have written, and tells them what they wait for.
#
# WEIR is the binary, WEIR_ENGINE the engine.
set -u
config=${1-}
if [ ! -f "$config" ]; then
  echo "weir serve takes no settings of Redis on its command line" >&2
  exit 1
fi

dir=. port=6379 connections=10000 password='' settings=() users=()
learn() {
  local name value
  while read -r name value || [ -n "$name" ]; do
    case $name in
    dir) dir=$value ;;
    port) port=$value ;;
    maxclients) connections=$value ;;
    requirepass) password=$value ;;
    user) users+=("$value") ;;
    aclfile) learn <"$dir/$value" ;;
    notify-keyspace-events | latency-monitor-threshold | slowlog-* | acl-pubsub-default | acllog-max-len | \
      tracking-table-max-keys | hash-max-* | list-* | set-max-* | zset-max-* | stream-node-* | hll-*) settings+=("$name $value") ;;
    esac
  done
}
# The directory stands in front of the file of users in what the tool writes.
learn <"$config"
mkdir -p "$dir/weir"
# One thread, as the tests take for granted that who asks first is served first, whatever the connection.
printf 'threads = 1\nconnections_max = %s\n' "$connections" >"$dir/weir/weir.toml"

# Says one line to the server; shows the answer.
ask() {
  exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
  printf '%s\r\nQUIT\r\n' "$1" >&3
  cat <&3
  exec 3>&-
}

settle() {
  local line
  until (ask PING) 2>/dev/null | grep -q '^[+-]'; do
    kill -0 $$ 2>/dev/null || return
    sleep 0.02
  done
  for line in "${settings[@]/#/CONFIG SET }" "${users[@]/#/ACL SETUSER }"; do
    [ -z "$line" ] || ask "$line" >/dev/null
  done
  [ -z "$password" ] || "$WEIR" tenant alter default --secret "$password" --admin "127.0.0.1:$((port + 10000))" >/dev/null
  # From here on the tool gives it five seconds to answer.
  echo "weir serve, PID: $$"
  echo "Ready to accept connections"
}

settle &
exec "$WEIR" serve --dir "$dir/weir/data" --config "$dir/weir/weir.toml" --engine "$WEIR_ENGINE" --allow-debug \
  --listen "127.0.0.1:$port" --admin "127.0.0.1:$((port + 10000))"
