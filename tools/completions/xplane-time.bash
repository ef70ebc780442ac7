# bash completion for xplane-time, from its help and its messages.

# The values of an option: PROGRAM OPTION COMMAND...
_xplane_time_values() {
  local program=$1 option=$2
  shift 2
  if [[ $option == --sort ]]; then
    "$program" help "$@" 2>/dev/null | sed -zE 's/\n {22}/ /g' |
      sed -nE 's/^  --sort .*Sort rows by ([^[(]*).*/\1/p' |
      sed -E 's/(functions|kernels) also //g; s/,? or |[,;] */\n/g' |
      sed -nE 's/^([a-z]+) *$/\1/p'
  else
    # The message about a wrong value lists the valid ones.
    "$program" "$@" "$option" '?' 2>&1 </dev/null |
      sed -nE 's/.* not in \{(.*)\}$/\1/; T expected; s/,/\n/gp; b
               :expected; s/.*; expected //; T; s/, | or /\n/gp'
  fi
}

_xplane_time() {
  local cur=${COMP_WORDS[COMP_CWORD]} word help words=()
  local option=${COMP_WORDS[COMP_CWORD-1]}
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -* ]] && break
    words+=("$word")
  done
  # The command is the first words that have a help. A TRACE without a command means report.
  while ((${#words[@]})) && ! help=$("$1" help "${words[@]}" 2>/dev/null); do
    unset 'words[-1]'
    ((${#words[@]})) || words=(report)
  done
  [[ ($cur == -* || $option == -*) && ${#words[@]} == 0 ]] && words=(report)
  case $option in
    --by | --format | --metric | --sort | --unit)
      COMPREPLY=($(compgen -W "$(_xplane_time_values "$1" "$option" "${words[@]}")" -- "$cur"))
      return
      ;;
  esac
  help=$("$1" help "${words[@]}" 2>/dev/null)
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
