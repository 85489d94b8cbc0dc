#compdef omnitts
_omnitts_completion() {
    eval $(env _OMNITTS_COMPLETE=complete_zsh _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" omnitts)
}
compdef _omnitts_completion omnitts
