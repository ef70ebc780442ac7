# bash completion for xplane-time, from its help.
_xplane_time() {
  local cur=${COMP_WORDS[COMP_CWORD]} word help words=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -* ]] && break
    words+=("$word")
  done
  # A TRACE without a command means report.
  [[ $cur == -* && ${#words[@]} == 0 ]] && words=(report)
  help=$("$1" help "${words[@]}" 2>/dev/null || "$1" help report 2>/dev/null)
  if [[ $cur == -* ]]; then
    words=$(grep -oE '^  -[^ ]+' <<< "$help" | tr , ' ')
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  else
    words=$(grep -oE '^  [a-z]+ ' <<< "$help")
    [[ $COMP_CWORD == 1 ]] && words+=" help"
    COMPREPLY=($(compgen -W "$words" -- "$cur") $(compgen -f -- "$cur"))
  fi
}
complete -o filenames -F _xplane_time xplane-time
