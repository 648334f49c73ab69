def write_page(asked, figures, seeds, folder): return folder
