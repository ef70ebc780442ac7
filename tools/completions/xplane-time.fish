# fish completion for xplane-time, from its help.
function __xplane_time_words
    set -l given
    set -l kind '[a-z]+'
    for word in (commandline -opc)[2..]
        string match -q -- '-*' $word; and break
        set -a given $word
    end
    # The command is the first words that have a help. A TRACE without a command means report.
    while test (count $given) -gt 0; and not xplane-time help $given &>/dev/null
        set -e given[-1]
        test (count $given) = 0; and set given report
    end
    set -l option (commandline -opc)[-1]
    if contains -- $option --by --format --metric --sort --unit
        test (count $given) = 0; and set given report
        if test $option = --sort
            xplane-time help $given 2>/dev/null | sed -zE 's/\n {22}/ /g' |
                sed -nE 's/^  --sort .*Sort rows by ([^[(]*).*/\1/p' |
                sed -E 's/(functions|kernels) also //g; s/,? or |[,;] */\n/g' |
                sed -nE 's/^([a-z]+) *$/\1/p'
        else
            # The message about a wrong value lists the valid ones.
            xplane-time $given $option '?' 2>&1 </dev/null |
                sed -nE 's/.* not in \{(.*)\}$/\1/; T expected; s/,/\n/gp; b
                         :expected; s/.*; expected //; T; s/, | or /\n/gp'
        end
        return
    end
    if string match -q -- '-*' (commandline -ct)
        set kind '-[^ ]+'
        test (count $given) = 0; and set given report
    else if test (count $given) = 0
        printf 'help\tHelp of a command\n'
    end
    # One line for each: NAME, a tab, DESCRIPTION.
    xplane-time help $given 2>/dev/null | sed -zE 's/\n {22}/  /g' |
        sed -nE "s/^  ($kind)( [^ ]+)?  +(.*)/\1\t\3/p" |
        sed -E 's/  +/ /g; s/^(-.),(--[^\t]+)(\t.*)/\1\3\n\2\3/'
end
complete -c xplane-time -a '(__xplane_time_words)'
