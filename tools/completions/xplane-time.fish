# fish completion for xplane-time, from its help.
function __xplane_time_words
    set -l given
    set -l kind '[a-z]+'
    for word in (commandline -opc)[2..]
        string match -q -- '-*' $word; and break
        set -a given $word
    end
    if string match -q -- '-*' (commandline -ct)
        set kind '-[^ ]+'
        test (count $given) = 0; and set given report # a TRACE without a command means report
    else if test (count $given) = 0
        printf 'help\tHelp of a command\n'
    end
    # One line for each: NAME, a tab, DESCRIPTION.
    begin
        xplane-time help $given; or xplane-time help report
    end 2>/dev/null | sed -zE 's/\n {22}/  /g' |
        sed -nE "s/^  ($kind)( [^ ]+)?  +(.*)/\1\t\3/p" |
        sed -E 's/  +/ /g; s/^(-.),(--[^\t]+)(\t.*)/\1\3\n\2\3/'
end
complete -c xplane-time -a '(__xplane_time_words)'
