# floodgate completes command lines in fish. To load it: floodgate completion fish | source
function __floodgate_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (command floodgate __complete $before[2..-1] "$current" 2>/dev/null)
    if test (count $lines) -gt 0
        printf '%s\n' $lines
    else
        __fish_complete_path "$current"
    end
end
complete -c floodgate -f -a '(__floodgate_complete)'
