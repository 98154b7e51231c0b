#compdef floodgate
# floodgate completes command lines in zsh. To load it: source <(floodgate completion zsh)
_floodgate() {
  local -a before lines texts
  local line value
  before=("${(@Q)words[2,CURRENT-1]}")
  lines=("${(@f)$(command floodgate __complete "${before[@]}" "${(Q)PREFIX}" 2>/dev/null)}")
  for line in "${lines[@]}"; do
    [[ -z "$line" ]] && continue
    value="${line%%$'\t'*}"
    texts+=("${value//:/\\:}:${line#*$'\t'}")
  done
  if ((${#texts})); then
    _describe floodgate texts
  else
    _files
  fi
}
compdef _floodgate floodgate
