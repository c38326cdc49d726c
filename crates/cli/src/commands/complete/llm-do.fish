# Completions of llm-do for fish. The program itself says what could come next, so they know the workers, runs and models of
# the project.
#
# Where it goes: ~/.config/fish/completions/llm-do.fish

function __llm_do_complete
    set -l words (commandline -opc)
    # Without the backslashes and quotes of the typed word.
    set -l current (commandline -oct)
    for line in ($words[1] complete -- $words "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :folders
                __fish_complete_directories "$current"
            case '*'
                echo $line
        end
    end
end

complete -c llm-do -f -k -a '(__llm_do_complete)'
