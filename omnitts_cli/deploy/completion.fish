function __omnitts_complete
    env _OMNITTS_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] _TYPER_COMPLETE_ARGS=(commandline -cp) omnitts
end
complete --command omnitts --no-files --condition "__omnitts_complete is-args" --arguments "(__omnitts_complete get-args)"
