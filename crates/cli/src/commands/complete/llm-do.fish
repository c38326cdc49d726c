# Completions of llm-do for fish. The program itself says what could come next, so they know the workers, runs and models of
# the project.
#
# Where it goes: ~/.config/fish/completions/llm-do.fish

function __llm_do_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    # Without backslashes and quotes. A quote that is still open can't be unescaped.
    set -l current (string unescape -- "$typed"; or string replace -r '^["\']' '' -- "$typed")
    for line in ($words[1] complete -- $words "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :folders
                __fish_complete_directories "$current"
            case '*'
                printf '%s\n' $line
        end
    end
end

complete -c llm-do -f -k -a '(__llm_do_complete)'
