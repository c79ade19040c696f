"""Ship a run: `python -m training.export --run training/runs/nano-2.toml`; see `model_folder`."""

from training.export.model_folder import main

main()
