"""The only room that may say which accelerator it is."""
