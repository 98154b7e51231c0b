# floodgate completes command lines in bash. To load it: source <(floodgate completion bash)
_floodgate() {
  local rest="${COMP_LINE:0:COMP_POINT}" words=() word trimmed i
  # Bash takes key:abc for three words. What stands together is one.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word="${COMP_WORDS[i]}"
    trimmed="${rest#"${rest%%[![:space:]]*}"}"
    ((i == COMP_CWORD)) && word="$trimmed"
    if ((i > 0)) && [[ "$trimmed" == "$rest" ]]; then
      words[${#words[@]} - 1]+="$word"
    else
      words+=("$word")
    fi
    rest="${trimmed:${#word}}"
  done
  local current="${words[${#words[@]} - 1]}" together="" line
  [[ "$current" == *[:=]* ]] && together="${current%"${current##*[:=]}"}"
  COMPREPLY=()
  while IFS= read -r line; do
    line="${line%%$'\t'*}"
    [[ "$line" == "$current"* ]] && COMPREPLY+=("${line#"$together"}")
  done < <(command floodgate __complete "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _floodgate floodgate
