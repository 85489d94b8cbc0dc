_omnitts_completion() {
    local IFS=$'\n'
    COMPREPLY=($(env _OMNITTS_COMPLETE=complete_bash COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD "$1"))
}
complete -o default -F _omnitts_completion omnitts
